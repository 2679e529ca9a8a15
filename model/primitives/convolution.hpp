// Convolution of NHWC activations by oneDNN: forward, input gradient, weight gradient, for one
// chunk size.
#pragma once

#include <compare>

#include "model/primitives/primitive.hpp"

namespace npu::model {

/// Square kernel, symmetric padding, no bias, no dilation, one group.
struct ConvShape {
  int batch = 1;
  int in_h = 1;
  int in_w = 1;
  int in_c = 1;
  int out_c = 1;
  int kernel = 1;
  int stride = 1;

  [[nodiscard]] int pad() const noexcept { return kernel / 2; }
  [[nodiscard]] int out_h() const noexcept { return (in_h + 2 * pad() - kernel) / stride + 1; }
  [[nodiscard]] int out_w() const noexcept { return (in_w + 2 * pad() - kernel) / stride + 1; }
  auto operator<=>(const ConvShape&) const = default;
};

class WeightGemm;

/// What a training convolution reads: inputs, output gradients and weights in fp32, or in bf16 with the products added
/// in fp32. What it writes is fp32 either way.
enum class Operands : uint8_t { kFp32, kBf16 };

/// Whether the processor multiplies bf16 pairs (AVX-512 with bf16 instructions) and oneDNN may use it. Where it does
/// not, bf16 operands would be slower than fp32 ones.
[[nodiscard]] bool has_bf16_products() noexcept;

/// Weights exist in up to three layouts. `master`: what weight gradients come in and the optimiser
/// works on, always fp32. `forward`: what the forward kernel reads, often the same. The
/// input-gradient kernel reads a third one, made from master right before use: weights change each
/// step anyway. With bf16 operands both are copies, rounded to nearest even on the way. Thread: one
/// call at a time. Cost: no allocation of ours after creation.
class Convolution {
 public:
  /// For training; without `needs_input_gradient` backward_data is not available (first layer).
  [[nodiscard]] static Result<std::unique_ptr<Convolution>> for_training(
      std::shared_ptr<Context> context, const ConvShape& shape, bool needs_input_gradient,
      Operands operands = Operands::kFp32);
  /// Forward only, in fp32. With a `trained` convolution of the same weights: its master layout, and
  /// the forward layout that fp32 operands have, whatever its own are: the same bits.
  [[nodiscard]] static Result<std::unique_ptr<Convolution>> for_evaluation(
      std::shared_ptr<Context> context, const ConvShape& shape, const Convolution* trained);
  ~Convolution();

  [[nodiscard]] const ConvShape& shape() const noexcept { return shape_; }
  [[nodiscard]] Operands operands() const noexcept { return operands_; }
  [[nodiscard]] uint64_t weights_bytes() const noexcept { return layout_bytes(master_); }
  /// 0 when the forward kernel reads the master layout.
  [[nodiscard]] uint64_t forward_weights_bytes() const noexcept;
  /// 0 when the input-gradient kernel reads the master layout, or there is none.
  [[nodiscard]] uint64_t backward_weights_bytes() const noexcept;
  [[nodiscard]] uint64_t scratch_bytes() const noexcept;
  [[nodiscard]] const Layout& master_layout() const noexcept { return master_; }
  [[nodiscard]] const Layout& plain_layout() const noexcept { return plain_; }
  [[nodiscard]] std::string implementations() const;

  void make_forward_weights(const float* master, void* forward, std::byte* scratch);
  void make_backward_weights(const float* master, void* backward, std::byte* scratch);
  /// Untyped arguments, here and below, are in the operands' type.
  void forward(const void* src, const void* forward_weights, float* dst, std::byte* scratch);
  void backward_data(const void* diff_dst, const void* backward_weights, float* diff_src,
                     std::byte* scratch);

  /// How the weight gradient is made. Without it: by backward_weights, one chunk at a time, in
  /// master layout. With it: by the product, which adds up all chunks, and one reorder at the end.
  [[nodiscard]] const WeightGemm* weight_gemm() const noexcept { return gemm_.get(); }
  /// Overwrites diff_weights (master layout, padding zero).
  void backward_weights(const void* src, const void* diff_dst, float* diff_weights,
                        std::byte* scratch);
  void gemm_to_master(const float* gradient, float* master, std::byte* scratch);

  /// Between master and plain OIHW.
  void to_plain(const float* master, float* plain, std::byte* scratch);
  void from_plain(const float* plain, float* master, std::byte* scratch);

 private:
  Convolution() = default;
  [[nodiscard]] Result<void> make_reorders(const std::shared_ptr<Context>& context);

  ConvShape shape_;
  Operands operands_ = Operands::kFp32;
  Layout master_;
  Layout forward_layout_;
  Layout backward_layout_;  // empty without input gradient
  Layout plain_;
  std::unique_ptr<Primitive> forward_;
  std::unique_ptr<Primitive> backward_data_;
  std::unique_ptr<Primitive> backward_weights_;  // null with a product
  std::unique_ptr<WeightGemm> gemm_;
  std::unique_ptr<Primitive> gemm_to_master_;
  std::unique_ptr<Primitive> to_forward_;   // null when the layouts are equal
  std::unique_ptr<Primitive> to_backward_;  // null when the layouts are equal
  std::unique_ptr<Primitive> to_plain_;
  std::unique_ptr<Primitive> from_plain_;
};

}  // namespace npu::model
