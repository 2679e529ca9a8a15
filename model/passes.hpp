// Drives the kernels over whole tensors: fixed blocks of rows, spread over threads, their partial
// sums added in block order. The block size depends on the shape only, so the bits do not depend on
// the thread count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/batch_norm.hpp"
#include "model/kernels/kernels.hpp"

namespace npu::model {

/// What is added before the ReLU at a block's end: nothing, a tensor, or a batch-normalised tensor.
struct ResidualInput {
  const float* data = nullptr;
  const BatchNorm* norm = nullptr;
};

/// Thread: one call at a time. Nothing here allocates.
class Passes {
 public:
  Passes(const Kernels& kernels, int threads) : kernels_(&kernels), threads_(threads) {}

  /// Floats of partial sums that `bind` wants for batch norms up to `width`.
  [[nodiscard]] static uint64_t partial_floats(int threads, size_t width);
  void bind(float* partial, size_t width) {
    partial_ = partial;
    partial_width_ = width;
  }

  /// Adds the moments of y to the batch norm's sums.
  void moments(const float* y, size_t elements, BatchNorm& bn) const;
  /// out = relu(bn(y) + residual).
  void normalise(const float* y, size_t elements, const BatchNorm& bn, ResidualInput residual,
                 float* out) const;
  /// Adds the backward sums of relu(bn(y)) to bn, given the gradient dz of its output.
  void reduce_masked(const float* dz, const float* y, size_t elements, BatchNorm& bn) const;
  /// out = gradient of y; `masked` when dz is the gradient of relu(bn(y)) and not of bn(y).
  void bn_backward(const float* dz, const float* y, size_t elements, const BatchNorm& bn,
                   bool masked, float* out) const;

  struct Join {
    const float* dx;
    const float* add;  // may be null
    const float* z;    // the block's output, whose sign is the ReLU mask
    float* out;
    const float* y;
    BatchNorm* bn;
    const float* y2;  // of the projection shortcut, may be null
    BatchNorm* bn2;
  };
  /// out = (dx + add) where z > 0; adds the backward sums of both batch norms that feed z.
  void join(const Join& join, size_t elements) const;

  void add(const float* a, const float* b, float* out, size_t count) const;
  void sgd(const SgdArgs& args, size_t count) const;

 private:
  template <typename Body>
  void each_block(size_t elements, size_t width, const Body& body) const;
  template <typename Body, typename Fold>
  void reduce_blocks(size_t elements, size_t width, size_t sums, const Body& body,
                     const Fold& fold) const;

  const Kernels* kernels_;
  int threads_;
  float* partial_ = nullptr;
  size_t partial_width_ = 0;
};

}  // namespace npu::model
