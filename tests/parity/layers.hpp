// The layers of model/ with memory of their own, as the tests here run them: plain tensors in,
// plain tensors out.
#pragma once

#include <span>
#include <vector>

#include "model/graph.hpp"
#include "model/passes.hpp"

namespace npu::parity {

using Values = std::vector<float>;

/// `count` values in [low, high) that depend on the stream only.
[[nodiscard]] Values random_values(size_t count, uint32_t stream, float low = -1, float high = 1);

struct ConvolutionRun {
  Values y;
  Values dx;          // empty without input gradient
  Values dw;          // OIHW
  Values dw_product;  // OHWI: as the gathered matrix product gives it
};

/// Forward and both gradients; `w` is OIHW.
[[nodiscard]] Result<ConvolutionRun> run_convolution(const model::ConvShape& shape,
                                                     bool needs_input_gradient, const Values& x,
                                                     const Values& w, const Values& dy);

struct LinearRun {
  Values y, dx, dw, db;
};
[[nodiscard]] Result<LinearRun> run_linear(int batch, int in, int out, const Values& x,
                                           const Values& w, const Values& b, const Values& dy);

struct MaxPoolRun {
  Values y, dx;
};
[[nodiscard]] Result<MaxPoolRun> run_max_pool(int h, int w, int channels, const Values& x,
                                              const Values& dy);

/// A batch norm with parameters drawn from `stream`, driven by the passes of training.
class BatchNormLayer {
 public:
  BatchNormLayer(size_t channels, uint32_t stream, model::Format format);

  /// Stores y in `keep`; batch statistics of what is stored.
  void statistics(const Values& y, model::Stored keep);
  void finish_backward(size_t elements) { bn.finish_backward(elements / bn.channels); }

  [[nodiscard]] std::span<const float> vector(const float* values) const {
    return {values, bn.channels};
  }

  model::BatchNorm bn;
  model::Passes passes;

 private:
  Values vectors_, small_, partial_;
  std::vector<double> doubles_;
};

}  // namespace npu::parity
