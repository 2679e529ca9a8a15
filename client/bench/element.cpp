#include "client/bench/element.hpp"

#include <Eigen/Core>
#include <cstring>

namespace npu::client {
namespace {

template <typename T>
void put(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace

void store_element(std::byte* buffer, uint64_t i, DType dtype, int64_t value) noexcept {
  std::byte* at = buffer + i * dtype_size(dtype);
  switch (dtype) {
    case DType::kInt8:
    case DType::kUint8:
      put(at, static_cast<uint8_t>(value));
      break;
    case DType::kInt16:
    case DType::kUint16:
      put(at, static_cast<uint16_t>(value));
      break;
    case DType::kInt32:
    case DType::kUint32:
      put(at, static_cast<uint32_t>(value));
      break;
    case DType::kInt64:
    case DType::kUint64:
      put(at, static_cast<uint64_t>(value));
      break;
    case DType::kFloat16:
      put(at, Eigen::half(static_cast<float>(value)));
      break;
    case DType::kBFloat16:
      put(at, Eigen::bfloat16(static_cast<float>(value)));
      break;
    case DType::kFloat32:
      put(at, static_cast<float>(value));
      break;
    case DType::kFloat64:
      put(at, static_cast<double>(value));
      break;
  }
}

bool element_is(const std::byte* buffer, uint64_t i, DType dtype, int64_t value) noexcept {
  std::byte want[8];
  store_element(want, 0, dtype, value);
  const size_t size = dtype_size(dtype);
  return std::memcmp(buffer + i * size, want, size) == 0;
}

}  // namespace npu::client
