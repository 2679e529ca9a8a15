#include "layers.hpp"

#include <omp.h>

#include <algorithm>
#include <new>

#include "model/primitives/weight_gemm.hpp"

namespace npu::parity {
namespace {

/// 64-byte aligned memory, as a network's.
class Buffer {
 public:
  explicit Buffer(uint64_t bytes)
      : size_(std::max<uint64_t>(bytes, 64)),
        data_(static_cast<std::byte*>(::operator new (size_, std::align_val_t{64}))) {}
  explicit Buffer(const Values& values) : Buffer(values.size() * sizeof(float)) {
    std::ranges::copy(values, floats());
  }
  ~Buffer() { ::operator delete (data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* bytes() { return data_; }
  [[nodiscard]] float* floats() { return reinterpret_cast<float*>(data_); }
  [[nodiscard]] Values values() { return {floats(), floats() + size_ / sizeof(float)}; }
  [[nodiscard]] Values values(size_t count) { return {floats(), floats() + count}; }

 private:
  uint64_t size_;
  std::byte* data_;
};

Result<std::shared_ptr<model::Context>> single_threaded() {
  omp_set_num_threads(1);
  return model::Context::create();
}

}  // namespace

Values random_values(size_t count, uint32_t stream, float low, float high) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    // SplitMix64 of (stream, i); 24 bits are exact in fp32.
    uint64_t z = (uint64_t{stream} << 40) + i * 0x9E3779B97F4A7C15U + 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    values[i] = low + (high - low) * (static_cast<float>(z >> 40) / 16777216.0F);
  }
  return values;
}

Result<ConvolutionRun> run_convolution(const model::ConvShape& shape, bool needs_input_gradient,
                                       const Values& x, const Values& w, const Values& dy) {
  NPU_TRY(const auto context, single_threaded());
  NPU_TRY(const auto conv, model::Convolution::for_training(context, shape, needs_input_gradient));
  Buffer scratch(conv->scratch_bytes());
  Buffer src(x), diff(dy), master(conv->weights_bytes()), gradient(conv->weights_bytes());
  Buffer forward(conv->forward_weights_bytes()), backward(conv->backward_weights_bytes());
  Buffer dst(dy.size() * sizeof(float));
  conv->from_plain(w.data(), master.floats(), scratch.bytes());
  const float* weights = master.floats();
  if (conv->forward_weights_bytes() != 0) {
    conv->make_forward_weights(master.floats(), forward.floats(), scratch.bytes());
    weights = forward.floats();
  }
  ConvolutionRun run;
  conv->forward(src.floats(), weights, dst.floats(), scratch.bytes());
  run.y = dst.values(dy.size());
  // Which of the two ways training takes depends on the processor; both are tried on any.
  const model::WeightGemm gemm(shape);
  Buffer product(gemm.gradient_bytes()), patches(gemm.patch_bytes());
  gemm.run(src.floats(), diff.floats(), false, product.floats(), patches.floats());
  run.dw_product = product.values(w.size());
  if (conv->weight_gemm() == nullptr) {
    conv->backward_weights(src.floats(), diff.floats(), gradient.floats(), scratch.bytes());
  } else {
    conv->gemm_to_master(product.floats(), gradient.floats(), scratch.bytes());
  }
  run.dw.resize(w.size());
  conv->to_plain(gradient.floats(), run.dw.data(), scratch.bytes());
  if (!needs_input_gradient) return run;
  weights = master.floats();
  if (conv->backward_weights_bytes() != 0) {
    conv->make_backward_weights(master.floats(), backward.floats(), scratch.bytes());
    weights = backward.floats();
  }
  Buffer dx(x.size() * sizeof(float));
  conv->backward_data(diff.floats(), weights, dx.floats(), scratch.bytes());
  run.dx = dx.values(x.size());
  return run;
}

Result<LinearRun> run_linear(int batch, int in, int out, const Values& x, const Values& w,
                             const Values& b, const Values& dy) {
  NPU_TRY(const auto context, single_threaded());
  NPU_TRY(const auto fc, model::Linear::create(context, batch, in, out, true, nullptr));
  Buffer scratch(fc->scratch_bytes()), copy(fc->copy_bytes());
  Buffer master(fc->weights_bytes()), gradient(fc->weights_bytes());
  Buffer src(x), diff(dy), bias(b), dst(dy), dx(x), db(b);
  fc->from_plain(w.data(), master.floats(), scratch.bytes());
  fc->forward(src.floats(), master.floats(), bias.floats(), dst.floats(), copy.floats(),
              scratch.bytes());
  fc->backward_data(diff.floats(), master.floats(), dx.floats(), copy.floats(), scratch.bytes());
  fc->backward_weights(src.floats(), diff.floats(), gradient.floats(), db.floats(),
                       scratch.bytes());
  LinearRun run{dst.values(dy.size()), dx.values(x.size()), Values(w.size()), db.values(b.size())};
  fc->to_plain(gradient.floats(), run.dw.data(), scratch.bytes());
  return run;
}

Result<MaxPoolRun> run_max_pool(int h, int w, int channels, const Values& x, const Values& dy) {
  NPU_TRY(const auto context, single_threaded());
  NPU_TRY(const auto pool, model::MaxPool::create(context, h, w, channels, true));
  Buffer scratch(pool->scratch_bytes()), workspace(pool->workspace_bytes());
  Buffer src(x), diff(dy), dst(dy), dx(x);
  pool->forward(src.floats(), dst.floats(), workspace.bytes(), scratch.bytes());
  pool->backward(diff.floats(), workspace.bytes(), dx.floats(), scratch.bytes());
  return MaxPoolRun{dst.values(dy.size()), dx.values(x.size())};
}

BatchNormLayer::BatchNormLayer(size_t channels, uint32_t stream, model::Format format)
    : passes(model::default_kernels(format), 1) {
  bn.channels = channels;
  bn.width = model::virtual_width(channels);
  vectors_.resize(model::BatchNorm::kWideVectors * bn.width);
  doubles_.resize(model::BatchNorm::kDoubleVectors * channels);
  partial_.resize(model::Passes::partial_floats(1, bn.width));
  passes.bind(partial_.data(), bn.width);
  float* wide = vectors_.data();
  for (float** slot : {&bn.mean, &bn.scale, &bn.shift, &bn.a, &bn.b, &bn.c}) {
    *slot = wide;
    wide += bn.width;
  }
  bn.sum = doubles_.data();
  bn.square = bn.sum + channels;
  bn.inv_std = bn.square + channels;
  small_ = random_values(6 * channels, stream, 0.5F, 1.5F);
  float* small = small_.data();
  for (float** slot : {&bn.weight, &bn.running_var, &bn.bias, &bn.running_mean, &bn.weight_gradient,
                       &bn.bias_gradient}) {
    *slot = small;
    small += channels;
  }
  for (size_t c = 0; c < channels; ++c) {
    bn.bias[c] -= 1;
    bn.running_mean[c] -= 1;
    if (c % 3 == 1) bn.weight[c] = -bn.weight[c];
  }
}

void BatchNormLayer::statistics(const Values& y, model::Stored keep) {
  bn.begin_forward(y.data());
  passes.moments(y.data(), y.size(), bn, keep);
  bn.finish_forward(y.size() / bn.channels);
}

}  // namespace npu::parity
