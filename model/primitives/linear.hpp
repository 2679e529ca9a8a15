// The fully connected layer by oneDNN: logits = features * weights^T + bias, and its gradients.
#pragma once

#include "model/primitives/primitive.hpp"

namespace npu::model {

/// Weights [out, in] in the layout of the weight gradient (master); the forward and input-gradient
/// kernels get a reordered copy when they want another one. Thread: one call at a time.
class Linear {
 public:
  /// `training` adds the gradients; a `trained` layer of the same weights imposes its layout.
  [[nodiscard]] static Result<std::unique_ptr<Linear>> create(std::shared_ptr<Context> context,
                                                              int batch, int in, int out,
                                                              bool training, const Linear* trained);
  ~Linear();

  [[nodiscard]] uint64_t weights_bytes() const noexcept { return layout_bytes(master_); }
  /// Room for one reordered copy of the weights (0 when none is needed).
  [[nodiscard]] uint64_t copy_bytes() const noexcept;
  [[nodiscard]] uint64_t scratch_bytes() const noexcept;
  [[nodiscard]] const Layout& master_layout() const noexcept { return master_; }
  [[nodiscard]] const Layout& plain_layout() const noexcept { return plain_; }

  /// `copy` holds copy_bytes() and is overwritten.
  void forward(const float* src, const float* weights, const float* bias, float* dst, float* copy,
               std::byte* scratch);
  void backward_data(const float* diff_dst, const float* weights, float* diff_src, float* copy,
                     std::byte* scratch);
  void backward_weights(const float* src, const float* diff_dst, float* diff_weights,
                        float* diff_bias, std::byte* scratch);
  void to_plain(const float* master, float* plain, std::byte* scratch);
  void from_plain(const float* plain, float* master, std::byte* scratch);

 private:
  Linear() = default;

  Layout master_;
  Layout forward_layout_;
  Layout backward_layout_;
  Layout plain_;
  std::unique_ptr<Primitive> forward_;
  std::unique_ptr<Primitive> backward_data_;
  std::unique_ptr<Primitive> backward_weights_;
  std::unique_ptr<Primitive> to_forward_;
  std::unique_ptr<Primitive> to_backward_;
  std::unique_ptr<Primitive> to_plain_;
  std::unique_ptr<Primitive> from_plain_;
};

}  // namespace npu::model
