#include <algorithm>
#include <cstring>
#include <numeric>

#include "shm/format/printable.hpp"
#include "shm/format/safetensors.hpp"
#include "shm/format/strict_json.hpp"

namespace npu {
namespace {

Result<void> check_names(std::span<const TensorSpec> tensors, std::span<const size_t> order) {
  std::vector<std::string_view> names;
  names.reserve(order.size());
  for (const size_t i : order) names.emplace_back(tensors[i].name);
  std::ranges::sort(names);
  if (const auto twin = std::ranges::adjacent_find(names); twin != names.end()) {
    return fail(Code::kInvalidArgument, "plan safetensors file: tensor '{}' is given twice",
                printable(*twin));
  }
  if (std::ranges::binary_search(names, std::string_view("__metadata__"))) {
    return fail(Code::kInvalidArgument,
                "plan safetensors file: a tensor cannot be named '__metadata__', the format uses "
                "it for strings");
  }
  return {};
}

Result<std::string> metadata_member(const TensorMetadata& metadata) {
  std::string out = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    NPU_TRY(const std::string quoted_key, json_quote(key));
    NPU_TRY(const std::string quoted_value, json_quote(value));
    if (out.back() != '{') out.push_back(',');
    out += quoted_key + ":" + quoted_value;
  }
  return out + "}";
}

Result<std::string> tensor_member(const TensorSpec& tensor, uint64_t begin, uint64_t end) {
  NPU_TRY(std::string out, json_quote(tensor.name));
  out += fmt::format(R"(:{{"dtype":"{}","shape":[)", file_dtype_name(tensor.dtype));
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out.push_back(',');
    out += fmt::format("{}", tensor.shape[i]);
  }
  return out + fmt::format(R"(],"data_offsets":[{},{}]}})", begin, end);
}

}  // namespace

Result<SafetensorsPlan> SafetensorsPlan::build(std::span<const TensorSpec> tensors,
                                               const TensorMetadata& metadata) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  NPU_TRY_VOID(check_names(tensors, order));
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const size_t width_a = file_dtype_size(tensors[a].dtype);
    const size_t width_b = file_dtype_size(tensors[b].dtype);
    return width_a != width_b ? width_a > width_b : tensors[a].name < tensors[b].name;
  });

  SafetensorsPlan plan;
  std::string json = "{";
  if (!metadata.empty()) {
    NPU_TRY(const std::string member, metadata_member(metadata));
    json += member;
  }
  uint64_t position = 0;
  for (const size_t i : order) {
    const TensorSpec& tensor = tensors[i];
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    uint64_t end = 0;
    if (!bytes || tensor.shape.size() > kMaxTensorRank ||
        __builtin_add_overflow(position, *bytes, &end) || end > INT64_MAX / 2) {
      return fail(Code::kInvalidArgument,
                  "plan safetensors file: tensor '{}' has rank {} (at most {}) or is too large",
                  printable(tensor.name), tensor.shape.size(), kMaxTensorRank);
    }
    NPU_TRY(const std::string member, tensor_member(tensor, position, end));
    if (json.back() != '{') json.push_back(',');
    json += member;
    plan.placements_.push_back({i, position, *bytes});
    position = end;
  }
  json.push_back('}');
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return fail(Code::kInvalidArgument, "plan safetensors file: header of {} bytes, at most {}",
                json.size(), kMaxSafetensorsHeaderBytes);
  }

  plan.header_.resize(8 + json.size());
  for (size_t i = 0; i < 8; ++i) {
    plan.header_[i] = static_cast<std::byte>(json.size() >> (8 * i) & 0xff);
  }
  std::memcpy(plan.header_.data() + 8, json.data(), json.size());
  for (auto& placement : plan.placements_) placement.offset += plan.header_.size();
  plan.file_bytes_ = plan.header_.size() + position;
  return plan;
}

}  // namespace npu
