// Where a kept activation tensor lies, in whatever type the network stores activations in.
#pragma once

#include <cstddef>

#include "model/kernels/kernels.hpp"

namespace npu::model {

/// A position in a stored tensor; null when there is none. Copies like a pointer.
struct Stored {
  std::byte* data = nullptr;
  size_t element_bytes = sizeof(float);

  [[nodiscard]] Stored at(size_t elements) const noexcept {
    return {data + elements * element_bytes, element_bytes};
  }
  /// Only where the format is fp32.
  [[nodiscard]] float* fp32() const noexcept { return reinterpret_cast<float*>(data); }
  explicit operator bool() const noexcept { return data != nullptr; }
};

/// An fp32 buffer as a stored tensor of format fp32.
inline Stored as_stored(float* data) noexcept {
  return {reinterpret_cast<std::byte*>(data), sizeof(float)};
}

/// A gradient that is either stored or in an fp32 scratch buffer; both null: none.
struct GradientInput {
  Stored stored;
  const float* fp32 = nullptr;
};

}  // namespace npu::model
