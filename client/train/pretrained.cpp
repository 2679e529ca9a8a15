#include "client/train/pretrained.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "client/train/import_name.hpp"
#include "client/train/to_fp32.hpp"
#include "shm/format/printable.hpp"

namespace npu::client {
namespace {

using model::Network;
using model::StateEntry;
using model::StateKind;

constexpr std::string_view kHeadHint =
    "; model.ignore_head: true leaves the classifier as initialised";
constexpr int64_t kMostBatches = int64_t{1} << 53;  // room for a run to count on

bool is_head(std::string_view name) { return name == "fc.weight" || name == "fc.bias"; }

/// "'a', 'b', 'c' and 7 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[i]));
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string tensors(size_t n) { return fmt::format("{} tensor{}", n, n == 1 ? "" : "s"); }

/// What of a file goes where in a network.
class Import {
 public:
  Import(Network& network, const SafetensorsFile& file, bool ignore_head)
      : network_(network), file_(file), ignore_head_(ignore_head) {}

  /// Each tensor of the file finds its entry and each entry its tensor, or both are reported.
  [[nodiscard]] Result<void> match() {
    NPU_TRY(Tensors left, by_import_name());
    std::vector<std::string> missing;
    for (const StateEntry& e : network_.state()) {
      const auto found = left.find(e.name);
      const bool wanted = !(ignore_head_ && is_head(e.name));
      // Files from before PyTorch 0.4.1 do not count batches.
      if (found == left.end() && wanted && e.kind != StateKind::kBatchesTracked) {
        missing.push_back(e.name);
      }
      from_.push_back(found != left.end() && wanted ? found->second : nullptr);
      if (found != left.end()) left.erase(found);
    }
    if (missing.empty() && left.empty()) return {};
    return does_not_fit(missing, left);
  }

  [[nodiscard]] Result<void> check_types_and_shapes() const {
    for (size_t i = 0; i < from_.size(); ++i) {
      if (from_[i] != nullptr) NPU_TRY_VOID(check_type_and_shape(network_.state()[i], *from_[i]));
    }
    return {};
  }

  [[nodiscard]] Result<void> read(std::span<float> scratch) {
    for (size_t i = 0; i < from_.size(); ++i) {
      if (from_[i] == nullptr) continue;
      const StateEntry& e = network_.state()[i];
      if (e.kind == StateKind::kBatchesTracked) {
        NPU_TRY_VOID(read_counter(i, *from_[i]));
        continue;
      }
      const std::span<float> values = scratch.first(e.count);
      NPU_TRY_VOID(read_values(*from_[i], values));
      NPU_TRY_VOID(check_values(e, *from_[i], values));
      network_.import_state(i, values);
    }
    return {};
  }

 private:
  using Tensors = std::map<std::string, const TensorEntry*, std::less<>>;

  [[nodiscard]] Result<Tensors> by_import_name() const {
    Tensors all;
    for (const TensorEntry& tensor : file_.tensors()) {
      const auto [at, added] = all.emplace(import_name(tensor.name), &tensor);
      if (added) continue;
      return fail(Code::kFailedPrecondition, "{}: tensors '{}' and '{}' are both {}", file_.name(),
                  printable(at->second->name), printable(tensor.name), printable(at->first));
    }
    return all;
  }

  [[nodiscard]] tl::unexpected<Error> does_not_fit(const std::vector<std::string>& missing,
                                                   const Tensors& left) const {
    std::vector<std::string> extra;
    for (const auto& [name, tensor] : left) extra.push_back(tensor->name);
    std::string text;
    if (!missing.empty())
      text += fmt::format("lacks {}: {}", tensors(missing.size()), listed(missing));
    if (!extra.empty()) {
      text += fmt::format("{}has {} that the network has not: {}", text.empty() ? "" : "; ",
                          tensors(extra.size()), listed(extra));
    }
    const bool only_head = std::ranges::all_of(missing, is_head) && !missing.empty();
    return fail(Code::kFailedPrecondition, "{}: does not fit model.arch {}: it {}{}", file_.name(),
                network_.config().arch, text, only_head ? kHeadHint : "");
  }

  [[nodiscard]] Result<void> check_type_and_shape(const StateEntry& e,
                                                  const TensorEntry& tensor) const {
    const bool counter = e.kind == StateKind::kBatchesTracked;
    if (counter ? tensor.dtype != FileDType::kI64 : !converts_to_fp32(tensor.dtype)) {
      return fail(Code::kFailedPrecondition, "{}: tensor '{}' is of type {}, expected {}",
                  file_.name(), printable(tensor.name), file_dtype_name(tensor.dtype),
                  counter ? "I64" : "F32, F16, BF16 or F64");
    }
    const TensorShape shape(e.shape.begin(), e.shape.end());
    if (tensor.shape == shape) return {};
    std::string hint;
    if (is_head(e.name)) hint = kHeadHint;
    if (e.name == "conv1.weight") {
      hint = fmt::format("; the data set has images of {} channel(s)", network_.config().channels);
    }
    return fail(Code::kFailedPrecondition, "{}: tensor '{}' is {}, {} of model.arch {} is {}{}",
                file_.name(), printable(tensor.name), shape_text(tensor.shape), e.name,
                network_.config().arch, shape_text(shape), hint);
  }

  [[nodiscard]] Result<void> read_counter(size_t i, const TensorEntry& tensor) {
    int64_t count = 0;
    NPU_TRY_VOID(file_.read_tensor(tensor, std::as_writable_bytes(std::span(&count, 1))));
    if (count < 0 || count > kMostBatches) {
      return fail(Code::kDataLoss, "{}: tensor '{}' counts {} batches, expected 0 to {}",
                  file_.name(), printable(tensor.name), count, kMostBatches);
    }
    network_.set_batches_tracked(i, count);
    return {};
  }

  /// The shape was checked, so the size is the network's, not the file's.
  [[nodiscard]] Result<void> read_values(const TensorEntry& tensor, std::span<float> out) {
    if (tensor.dtype == FileDType::kF32) {
      return file_.read_tensor(tensor, std::as_writable_bytes(out));
    }
    raw_.resize(tensor.size_bytes());
    NPU_TRY_VOID(file_.read_tensor(tensor, raw_));
    to_fp32(tensor.dtype, raw_, out);
    return {};
  }

  [[nodiscard]] Result<void> check_values(const StateEntry& e, const TensorEntry& tensor,
                                          std::span<const float> values) const {
    const bool variance = e.name.ends_with(".running_var");
    const auto bad = std::ranges::find_if(
        values, [&](float v) { return !std::isfinite(v) || (variance && v < 0); });
    if (bad == values.end()) return {};
    return fail(Code::kDataLoss, "{}: element {} of tensor '{}' is {}, expected a finite number{}",
                file_.name(), bad - values.begin(), printable(tensor.name), *bad,
                variance ? " from 0" : "");
  }

  Network& network_;
  const SafetensorsFile& file_;
  const bool ignore_head_;
  std::vector<const TensorEntry*> from_;  // of each state entry; null: it stays as it is
  std::vector<std::byte> raw_;
};

}  // namespace

Result<SafetensorsFile> open_pretrained(const std::string& path) {
  const std::string name = "model.pretrained '" + path + "'";
  // Without O_NONBLOCK a named pipe would hold the job before it can be refused.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("open " + name);
  auto file = SafetensorsFile::open(std::move(fd), name);
  if (!file && file.error().code == Code::kDataLoss) {
    file.error().message += "; expected a whole safetensors file, see docs/pretrained.md";
  }
  return file;
}

Result<void> load_pretrained(Network& network, const SafetensorsFile& file, bool ignore_head,
                             std::span<float> scratch) {
  Import import(network, file, ignore_head);
  NPU_TRY_VOID(import.match());
  NPU_TRY_VOID(import.check_types_and_shapes());
  return import.read(scratch);
}

}  // namespace npu::client
