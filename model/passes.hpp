// Drives the kernels over whole tensors: fixed blocks of rows, spread over threads, their partial
// sums added in block order. The block size depends on the shape only, so the bits do not depend on
// the thread count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/batch_norm.hpp"
#include "model/kernels/kernels.hpp"
#include "model/profile.hpp"
#include "model/storage.hpp"

namespace npu::model {

/// What is added before the ReLU at a block's end: nothing, a stored tensor (batch-normalised when
/// `norm` is set), or an fp32 one.
struct ResidualInput {
  Stored stored;
  const BatchNorm* norm = nullptr;
  const float* fp32 = nullptr;
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

  /// Times every pass from now on; null ends it.
  void set_profile(Profile* profile) noexcept { profile_ = profile; }

  [[nodiscard]] Format format() const noexcept { return kernels_->format; }

  /// Stores y, which a convolution has just written, in `keep` (null: it is there already) and adds
  /// the moments of what is stored to the batch norm's sums.
  void moments(const float* y, size_t elements, BatchNorm& bn, Stored keep) const;
  /// relu(bn(y) + residual), stored in `keep` and, rounded the same way, in `out`; either may be
  /// null.
  void normalise(Stored y, size_t elements, const BatchNorm& bn, const ResidualInput& residual,
                 Stored keep, float* out) const;
  /// Stores dz in `keep` (null: it is not to be rounded), the gradient of relu(bn(y)), and adds
  /// the backward sums to bn.
  void reduce_masked(const float* dz, Stored y, size_t elements, BatchNorm& bn, Stored keep) const;
  /// The gradient of y, stored in `keep` or, when that is null, in `out`; `masked` when dz is the
  /// gradient of relu(bn(y)) and not of bn(y).
  void bn_backward(const GradientInput& dz, Stored y, size_t elements, const BatchNorm& bn,
                   bool masked, Stored keep, float* out) const;

  struct Join {
    const float* dx;
    GradientInput add;  // or none
    const float* z;     // the block's output, whose sign is the ReLU mask
    Stored out;
    Stored y;
    BatchNorm* bn;
    Stored y2;  // of the projection shortcut, or null
    BatchNorm* bn2;
  };
  /// out = (dx + add) where z > 0; adds the backward sums of both batch norms that feed z.
  void join(const Join& join, size_t elements) const;
  /// out = dx + add.
  void merge(const float* dx, const GradientInput& add, Stored out, size_t count) const;

  void widen(Stored in, float* out, size_t count) const;
  void narrow(const float* in, Stored out, size_t count) const;
  void round(const float* in, float* out, size_t count) const;
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
  Profile* profile_ = nullptr;
  float* partial_ = nullptr;
  size_t partial_width_ = 0;
};

}  // namespace npu::model
