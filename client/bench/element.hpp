// Small whole numbers in every element type, so that a bench can say exactly what each operation
// must give.
#pragma once

#include <cstdint>

#include "shm/base/dtype.hpp"

namespace npu::client {

/// Stores `value` (a whole number that every type holds exactly, or wraps for narrow integers) at
/// element i.
void store_element(std::byte* buffer, uint64_t i, DType dtype, int64_t value) noexcept;

/// True if element i has exactly the bits that store_element(value) would write.
[[nodiscard]] bool element_is(const std::byte* buffer, uint64_t i, DType dtype,
                              int64_t value) noexcept;

}  // namespace npu::client
