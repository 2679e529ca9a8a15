#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "shm/format/safetensors.hpp"

namespace npu {
namespace {

struct FileDTypeRow {
  std::string_view name;
  size_t size;
  std::optional<DType> dtype;
};
// In the order of FileDType.
constexpr std::array<FileDTypeRow, 13> kRows = {{{"F64", 8, DType::kFloat64},
                                                 {"F32", 4, DType::kFloat32},
                                                 {"F16", 2, DType::kFloat16},
                                                 {"BF16", 2, DType::kBFloat16},
                                                 {"I64", 8, DType::kInt64},
                                                 {"I32", 4, DType::kInt32},
                                                 {"I16", 2, DType::kInt16},
                                                 {"I8", 1, DType::kInt8},
                                                 {"U64", 8, DType::kUint64},
                                                 {"U32", 4, DType::kUint32},
                                                 {"U16", 2, DType::kUint16},
                                                 {"U8", 1, DType::kUint8},
                                                 {"BOOL", 1, std::nullopt}}};

const FileDTypeRow& row_of(FileDType dtype) noexcept {
  const auto i = static_cast<size_t>(dtype);
  NPU_CHECK(i < kRows.size());
  return kRows[i];
}

}  // namespace

std::string_view file_dtype_name(FileDType dtype) noexcept { return row_of(dtype).name; }
size_t file_dtype_size(FileDType dtype) noexcept { return row_of(dtype).size; }
std::optional<DType> to_dtype(FileDType dtype) noexcept { return row_of(dtype).dtype; }

std::optional<FileDType> parse_file_dtype(std::string_view name) noexcept {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<FileDType>(i);
  }
  return std::nullopt;
}

FileDType to_file_dtype(DType dtype) noexcept {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].dtype == dtype) return static_cast<FileDType>(i);
  }
  check_failed("every DType has a file dtype", __FILE__, __LINE__, {});
}

std::optional<uint64_t> tensor_bytes(FileDType dtype, std::span<const uint64_t> shape) noexcept {
  uint64_t bytes = 1;
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bytes, file_dtype_size(dtype), &bytes)) return std::nullopt;
  return bytes;
}

std::string shape_text(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const TensorEntry* SafetensorsHeader::find(std::string_view name) const noexcept {
  const auto it = std::ranges::find(tensors, name, &TensorEntry::name);
  return it == tensors.end() ? nullptr : &*it;
}

}  // namespace npu
