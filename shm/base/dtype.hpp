// Element types and reductions: one numbering for tensors, descriptors and files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace npu {

/// Values travel in descriptors: stable, append only.
enum class DType : uint8_t {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kUint8 = 7,
  kUint16 = 8,
  kUint32 = 9,
  kFloat64 = 10,
  kBFloat16 = 11,
};
inline constexpr uint8_t kDTypeCount = 12;

enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kMean = 4,
  kPreMulSum = 5
};
inline constexpr uint8_t kReduceOpCount = 6;

/// Bytes an element takes; 0 for a value outside the enum.
[[nodiscard]] size_t dtype_size(DType dtype) noexcept;

/// "fp32", "bf16", "int8", ...; "unknown" outside the enum.
[[nodiscard]] std::string_view dtype_name(DType dtype) noexcept;
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name) noexcept;

/// "sum", "mean", ...
[[nodiscard]] std::string_view reduce_op_name(ReduceOp op) noexcept;
[[nodiscard]] std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept;

}  // namespace npu
