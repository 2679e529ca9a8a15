// The 3x3/2 max pooling of the ImageNet stem by oneDNN, one image a call.
#pragma once

#include "model/primitives/primitive.hpp"

namespace npu::model {

/// Kernel 3, stride 2, padding 1 (padding never wins). The workspace remembers which input won.
class MaxPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MaxPool>> create(std::shared_ptr<Context> context,
                                                               int in_h, int in_w, int channels,
                                                               bool training);
  ~MaxPool();

  [[nodiscard]] uint64_t workspace_bytes() const noexcept { return workspace_bytes_; }  // an image
  [[nodiscard]] uint64_t scratch_bytes() const noexcept;

  /// `workspace` is ignored when created without training.
  void forward(const float* src, float* dst, std::byte* workspace, std::byte* scratch);
  void backward(const float* diff_dst, const std::byte* workspace, float* diff_src,
                std::byte* scratch);

 private:
  MaxPool() = default;

  uint64_t workspace_bytes_ = 0;
  std::unique_ptr<Primitive> forward_;
  std::unique_ptr<Primitive> backward_;
};

}  // namespace npu::model
