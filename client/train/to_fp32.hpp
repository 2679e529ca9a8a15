// Floating-point bytes of a file as fp32.
#pragma once

#include <cstddef>
#include <span>

#include "shm/format/safetensors.hpp"

namespace npu::client {

/// F64, F32, F16 and BF16.
[[nodiscard]] bool converts_to_fp32(FileDType dtype) noexcept;

/// out[i] = element i of `raw`: exact from the narrow types, rounded to nearest from F64 (beyond
/// the range of fp32: infinite). Shapes: raw is out.size() elements of a dtype that converts;
/// neither need be aligned to it.
void to_fp32(FileDType dtype, std::span<const std::byte> raw, std::span<float> out) noexcept;

}  // namespace npu::client
