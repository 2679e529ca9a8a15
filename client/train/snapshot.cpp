#include "client/train/snapshot.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "shm/base/failpoint.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::client {
namespace {

using model::Network;
using model::StateEntry;
using model::StateKind;

constexpr uint64_t kAlign = 64;
const std::string kAveragePrefix = "ema.";

uint64_t aligned(uint64_t bytes) noexcept { return (bytes + kAlign - 1) / kAlign * kAlign; }

uint64_t entry_bytes(const StateEntry& e) noexcept {
  return e.count * (e.kind == StateKind::kBatchesTracked ? sizeof(int64_t) : sizeof(float));
}

/// Plain bytes of entry i into `out`.
void export_entry(const Network& network, size_t i, std::byte* out) {
  const StateEntry& e = network.state()[i];
  if (e.kind == StateKind::kBatchesTracked) {
    const int64_t count = network.batches_tracked(i);
    std::memcpy(out, &count, sizeof(count));
  } else {
    network.export_state(i, {reinterpret_cast<float*>(out), e.count});
  }
}

void describe(shm::SnapshotTensor& row, const StateEntry& e, const std::string& name) {
  shm::put_text(row.name, name);
  row.rank = static_cast<uint32_t>(e.shape.size());
  for (size_t d = 0; d < e.shape.size(); ++d) row.shape[d] = e.shape[d];
  row.dtype =
      static_cast<uint8_t>(e.kind == StateKind::kBatchesTracked ? DType::kInt64 : DType::kFloat32);
}

void hash_identity(Xxh3& hash, const StateEntry& e) {
  hash.update(std::as_bytes(std::span(e.name)));
  hash.update(std::as_bytes(std::span(e.shape)));
}

}  // namespace

uint64_t largest_entry(const Network& network) {
  uint64_t most = sizeof(int64_t) / sizeof(float);
  for (const StateEntry& e : network.state()) most = std::max(most, e.count);
  return most;
}

uint64_t weights_digest(const Network& network, std::span<float> scratch) {
  Xxh3 hash(Xxh3::Width::k64);
  auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
  for (size_t i = 0; i < network.state().size(); ++i) {
    const StateEntry& e = network.state()[i];
    export_entry(network, i, bytes);
    hash_identity(hash, e);
    hash.update({bytes, entry_bytes(e)});
  }
  return hash.digest64();
}

namespace {

struct StageSize {
  uint64_t data = 0;  // bytes
  uint64_t rows = 0;
};

StageSize size_of(const Network& network, bool with_average) {
  StageSize size;
  for (const StateEntry& e : network.state()) {
    uint64_t copies = e.kind == StateKind::kParameter ? 2 : 1;  // momentum beside the parameter
    if (with_average && e.kind != StateKind::kBatchesTracked) ++copies;
    size.data += copies * aligned(entry_bytes(e));
    size.rows += copies;
  }
  return size;
}

}  // namespace

uint64_t SnapshotStage::bytes(const Network& network, bool with_average) {
  const StageSize size = size_of(network, with_average);
  return size.data + aligned(size.rows * sizeof(shm::SnapshotTensor)) + SnapshotStage::kStateBytes +
         4 * kAlign;
}

Result<SnapshotStage> SnapshotStage::place(const Network& network, ArenaAllocator& arena,
                                           bool with_average) {
  const StageSize size = size_of(network, with_average);
  SnapshotStage stage;
  NPU_TRY(stage.data_, arena.take<float>(size.data / sizeof(float)));
  NPU_TRY(stage.table_, arena.take<shm::SnapshotTensor>(size.rows));
  NPU_TRY(stage.state_, arena.take<char>(SnapshotStage::kStateBytes));
  stage.data_offset_ = arena.offset_of(stage.data_.data());
  stage.table_offset_ = arena.offset_of(stage.table_.data());
  stage.state_offset_ = arena.offset_of(stage.state_.data());
  return stage;
}

void SnapshotStage::set_state(const std::string& json) {
  NPU_CHECK(json.size() <= state_.size());
  std::memcpy(state_.data(), json.data(), json.size());
  state_bytes_ = json.size();
}

namespace {

/// Writes the tensors of one snapshot behind each other, and a row of the table for each.
class StageWriter {
 public:
  StageWriter(std::span<float> data, uint64_t data_offset, std::span<shm::SnapshotTensor> table,
              model::StateExporter& exporter)
      : base_(reinterpret_cast<std::byte*>(data.data())),
        data_offset_(data_offset),
        table_(table),
        exporter_(exporter) {}

  /// Entry i out of memory of its kind.
  void parameter(size_t i, const StateEntry& e, std::span<const float> flat, uint8_t file,
                 const std::string& name) {
    exporter_.parameter(i, flat, {reinterpret_cast<float*>(base_ + at_), e.count});
    add(e, name, file);
  }
  void buffer(size_t i, const StateEntry& e, std::span<const float> buffers, uint8_t file,
              const std::string& name) {
    const auto values = exporter_.buffer(i, buffers);
    std::memcpy(base_ + at_, values.data(), values.size_bytes());
    add(e, name, file);
  }
  void counter(const StateEntry& e, int64_t value) {
    std::memcpy(base_ + at_, &value, sizeof(value));
    add(e, e.name, 0);
  }

  [[nodiscard]] size_t rows() const noexcept { return row_; }

 private:
  void add(const StateEntry& e, const std::string& name, uint8_t file) {
    shm::SnapshotTensor& r = table_[row_++];
    r = {};
    describe(r, e, name);
    r.file = file;
    r.offset = data_offset_ + at_;
    r.bytes = entry_bytes(e);
    at_ += aligned(r.bytes);
  }

  std::byte* base_;
  uint64_t data_offset_;
  std::span<shm::SnapshotTensor> table_;
  model::StateExporter& exporter_;
  uint64_t at_ = 0;
  size_t row_ = 0;
};

constexpr uint8_t kModel = 0, kOptimizer = 1;  // files

}  // namespace

void SnapshotStage::copy(model::StateExporter& exporter, std::span<const StateEntry> entries,
                         const SnapshotSource& from) {
  StageWriter out(data_, data_offset_, table_, exporter);
  for (size_t i = 0; i < entries.size(); ++i) {
    const StateEntry& e = entries[i];
    switch (e.kind) {
      case StateKind::kBatchesTracked:
        out.counter(e, from.batches_tracked[i]);
        break;
      case StateKind::kBuffer:
        out.buffer(i, e, from.buffers, kModel, e.name);
        break;
      case StateKind::kParameter:
        out.parameter(i, e, from.parameters, kModel, e.name);
        out.parameter(i, e, from.momentum, kOptimizer, e.name);
        break;
    }
    if (i == entries.size() / 2) NPU_FAILPOINT("train.stage_half_filled");
  }
  for (size_t i = 0; i < entries.size() && !from.average_parameters.empty(); ++i) {
    const StateEntry& e = entries[i];
    const std::string name = kAveragePrefix + e.name;
    if (e.kind == StateKind::kParameter) {
      out.parameter(i, e, from.average_parameters, kOptimizer, name);
    } else if (e.kind == StateKind::kBuffer) {
      out.buffer(i, e, from.average_buffers, kOptimizer, name);
    }
  }
  rows_ = out.rows();
}

shm::CheckpointCommit SnapshotStage::describe(std::span<const StateEntry> entries) {
  const auto* base = reinterpret_cast<const std::byte*>(data_.data());
  Xxh3 weights(Xxh3::Width::k64);
  auto entry = entries.begin();
  for (shm::SnapshotTensor& row : table_.first(rows_)) {
    const std::span bytes(base + (row.offset - data_offset_), row.bytes);
    row.digest = xxh3_64(bytes);
    if (row.file != kModel) continue;
    // The model's rows come in the order of the entries, one each.
    hash_identity(weights, *entry++);
    weights.update(bytes);
  }
  shm::CheckpointCommit commit{};
  commit.weights_digest = weights.digest64();
  commit.table_offset = table_offset_;
  commit.table_count = static_cast<uint32_t>(rows_);
  commit.state_offset = state_offset_;
  commit.state_bytes = state_bytes_;
  return commit;
}

namespace {

/// Reads one tensor after comparing its type and shape with the entry's.
Result<void> read_entry(const SafetensorsFile& file, const StateEntry& e, std::span<std::byte> out,
                        const std::string& prefix = "") {
  const std::string name = prefix + e.name;
  const TensorEntry* tensor = file.find(name);
  if (tensor == nullptr) {
    return fail(Code::kDataLoss, "load {}: tensor '{}' is missing", file.name(), name);
  }
  const FileDType want = e.kind == StateKind::kBatchesTracked ? FileDType::kI64 : FileDType::kF32;
  const TensorShape shape(e.shape.begin(), e.shape.end());
  if (tensor->dtype != want || tensor->shape != shape) {
    return fail(Code::kFailedPrecondition, "load {}: tensor '{}' is {} {}, the model's is {} {}",
                file.name(), name, file_dtype_name(tensor->dtype), shape_text(tensor->shape),
                file_dtype_name(want), shape_text(shape));
  }
  return file.read_tensor(*tensor, out);
}

Result<void> restore_tensors(Network& network, const SafetensorsFile& weights,
                             const SafetensorsFile& momentum, std::span<float> scratch) {
  auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
  for (size_t i = 0; i < network.state().size(); ++i) {
    const StateEntry& e = network.state()[i];
    NPU_TRY_VOID(read_entry(weights, e, {bytes, entry_bytes(e)}));
    if (e.kind == StateKind::kBatchesTracked) {
      int64_t count = 0;
      std::memcpy(&count, bytes, sizeof(count));
      network.set_batches_tracked(i, count);
      continue;
    }
    network.import_state(i, scratch.first(e.count));
    if (e.kind != StateKind::kParameter) continue;
    NPU_TRY_VOID(read_entry(momentum, e, {bytes, entry_bytes(e)}));
    network.import_momentum(i, scratch.first(e.count));
  }
  return {};
}

/// The average, by way of the network, whose own state is read after it.
Result<void> restore_average(Network& network, WeightAverage& average, const SafetensorsFile& file,
                             std::span<float> scratch) {
  auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
  for (size_t i = 0; i < network.state().size(); ++i) {
    const StateEntry& e = network.state()[i];
    if (e.kind == StateKind::kBatchesTracked) continue;
    NPU_TRY_VOID(read_entry(file, e, {bytes, entry_bytes(e)}, kAveragePrefix));
    network.import_state(i, scratch.first(e.count));
  }
  average.start(network);
  return {};
}

Result<std::string> read_text(int fd, uint64_t limit, const std::string& what) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("stat " + what);
  if (static_cast<uint64_t>(st.st_size) > limit) {
    return fail(Code::kDataLoss, "read {}: {} bytes, at most {} are accepted", what, st.st_size,
                limit);
  }
  std::string text(static_cast<size_t>(st.st_size), '\0');
  NPU_TRY_VOID(pread_all(fd, std::as_writable_bytes(std::span(text)), 0, what));
  return text;
}

}  // namespace

Result<ParsedState> read_state(const CheckpointFiles& files) {
  NPU_TRY(const std::string text,
          read_text(files.state.get(), 1 << 20, files.path + "/state.json"));
  return state_from_json(text);
}

Result<void> restore(Network& network, WeightAverage* average, CheckpointFiles files,
                     std::span<float> scratch) {
  NPU_TRY(const auto weights,
          SafetensorsFile::open(std::move(files.model), files.path + "/model.safetensors"));
  NPU_TRY(const auto momentum,
          SafetensorsFile::open(std::move(files.optimizer), files.path + "/optimizer.safetensors"));
  const bool has_average = momentum.find(kAveragePrefix + network.state()[0].name) != nullptr;
  if (average != nullptr && has_average) {
    NPU_TRY_VOID(restore_average(network, *average, momentum, scratch));
  }
  NPU_TRY_VOID(restore_tensors(network, weights, momentum, scratch));
  if (average != nullptr && !has_average) average->start(network);
  return {};
}

}  // namespace npu::client
