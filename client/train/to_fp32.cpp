#include "client/train/to_fp32.hpp"

#include <Eigen/Core>
#include <cstring>

namespace npu::client {
namespace {

template <typename T>
void convert(std::span<const std::byte> raw, std::span<float> out) noexcept {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace

bool converts_to_fp32(FileDType dtype) noexcept {
  return dtype == FileDType::kF64 || dtype == FileDType::kF32 || dtype == FileDType::kF16 ||
         dtype == FileDType::kBF16;
}

void to_fp32(FileDType dtype, std::span<const std::byte> raw, std::span<float> out) noexcept {
  NPU_CHECK(converts_to_fp32(dtype) && raw.size() == out.size() * file_dtype_size(dtype));
  switch (dtype) {
    case FileDType::kF64:
      return convert<double>(raw, out);
    case FileDType::kF16:
      return convert<Eigen::half>(raw, out);
    case FileDType::kBF16:
      return convert<Eigen::bfloat16>(raw, out);
    default:
      return convert<float>(raw, out);
  }
}

}  // namespace npu::client
