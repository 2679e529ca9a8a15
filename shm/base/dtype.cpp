#include "shm/base/dtype.hpp"

#include <array>

namespace npu {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t size;
};
constexpr std::array<DTypeRow, kDTypeCount> kDTypes = {{{"int8", 1},
                                                        {"int16", 2},
                                                        {"int32", 4},
                                                        {"fp16", 2},
                                                        {"fp32", 4},
                                                        {"int64", 8},
                                                        {"uint64", 8},
                                                        {"uint8", 1},
                                                        {"uint16", 2},
                                                        {"uint32", 4},
                                                        {"fp64", 8},
                                                        {"bf16", 2}}};
constexpr std::array<std::string_view, kReduceOpCount> kReduceOps = {"sum", "prod", "max",
                                                                     "min", "mean", "premulsum"};

}  // namespace

size_t dtype_size(DType dtype) noexcept {
  const auto i = static_cast<size_t>(dtype);
  return i < kDTypes.size() ? kDTypes[i].size : 0;
}

std::string_view dtype_name(DType dtype) noexcept {
  const auto i = static_cast<size_t>(dtype);
  return i < kDTypes.size() ? kDTypes[i].name : "unknown";
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string_view reduce_op_name(ReduceOp op) noexcept {
  const auto i = static_cast<size_t>(op);
  return i < kReduceOps.size() ? kReduceOps[i] : "unknown";
}

std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept {
  for (size_t i = 0; i < kReduceOps.size(); ++i) {
    if (kReduceOps[i] == name) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

}  // namespace npu
