// Builds the three convolution primitives and chooses the weights layouts they share.
#include <algorithm>
#include <dnnl.hpp>

#include "model/primitives/convolution.hpp"
#include "model/primitives/weight_gemm.hpp"

namespace npu::model {
namespace {

using dnnl::memory;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Layout to_layout(const memory::desc& desc) {
  return Layout(std::string(reinterpret_cast<const char*>(&desc.data), sizeof(desc.data)));
}

memory::desc to_desc(const Layout& layout) {
  dnnl_memory_desc_t raw;
  std::copy_n(layout.bytes().data(), sizeof(raw), reinterpret_cast<char*>(&raw));
  return memory::desc(raw);
}

/// oneDNN's view of one ConvShape.
struct Builder {
  explicit Builder(const Context& context, const ConvShape& shape)
      : engine(context.engine(), true),
        weights_dims{shape.out_c, shape.in_c, shape.kernel, shape.kernel},
        src({shape.batch, shape.in_c, shape.in_h, shape.in_w}, memory::data_type::f32,
            memory::format_tag::nhwc),
        dst({shape.batch, shape.out_c, shape.out_h(), shape.out_w()}, memory::data_type::f32,
            memory::format_tag::nhwc),
        strides{shape.stride, shape.stride},
        pad{shape.pad(), shape.pad()} {
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  [[nodiscard]] memory::desc weights(memory::format_tag tag) const {
    return memory::desc(weights_dims, memory::data_type::f32, tag);
  }
  [[nodiscard]] Forward::primitive_desc forward(const memory::desc& w) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, src, w, dst,
             strides, pad, pad},
            attr,
            engine};
  }
  [[nodiscard]] BackwardData::primitive_desc backward_data(
      const Forward::primitive_desc& hint) const {
    return {{dnnl::algorithm::convolution_direct, src, weights(memory::format_tag::any), dst,
             strides, pad, pad},
            attr,
            engine,
            hint};
  }
  [[nodiscard]] BackwardWeights::primitive_desc backward_weights(
      const Forward::primitive_desc& hint) const {
    return {{dnnl::algorithm::convolution_direct, src, weights(memory::format_tag::any), dst,
             strides, pad, pad},
            attr,
            engine,
            hint};
  }

  dnnl::engine engine;
  dnnl::primitive_attr attr;
  memory::dims weights_dims;
  memory::desc src;
  memory::desc dst;
  memory::dims strides;
  memory::dims pad;
};

bool is_slow(std::string_view implementation) {
  return implementation.starts_with("ref") || implementation.starts_with("gemm");
}

/// Measured on Zen 4 (AVX-512, oneDNN 2.6.3, one thread): reading the weight-gradient layout costs
/// the forward kernel nothing, except for strided kernels larger than 1x1 on many channels (25 %
/// slower) and the 7x7 stem.
bool wants_own_layout(const ConvShape& shape) {
  return shape.kernel > 1 && shape.stride > 1 && (shape.in_c >= 64 || shape.kernel > 3);
}

}  // namespace

Convolution::~Convolution() = default;

Result<std::unique_ptr<Convolution>> Convolution::for_training(std::shared_ptr<Context> context,
                                                               const ConvShape& shape,
                                                               bool needs_input_gradient) try {
  const Builder builder(*context, shape);
  auto conv = std::unique_ptr<Convolution>(new Convolution());
  conv->shape_ = shape;
  const Forward::primitive_desc free_forward =
      builder.forward(builder.weights(memory::format_tag::any));
  Forward::primitive_desc forward_desc = free_forward;
  if (WeightGemm::pays(shape)) {
    conv->gemm_ = std::make_unique<WeightGemm>(shape);
    conv->master_ = to_layout(free_forward.weights_desc());
    const Layout product = to_layout(builder.weights(memory::format_tag::ohwi));
    NPU_TRY(conv->gemm_to_master_, Primitive::reorder(context, product, conv->master_));
  } else {
    const auto weights_desc = builder.backward_weights(free_forward);
    conv->master_ = to_layout(weights_desc.diff_weights_desc());
    forward_desc = builder.forward(weights_desc.diff_weights_desc());
    if (wants_own_layout(shape) || is_slow(forward_desc.impl_info_str())) {
      forward_desc = free_forward;
    }
    NPU_TRY(conv->backward_weights_,
            Primitive::create(context, weights_desc.get(),
                              {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}));
  }
  conv->forward_layout_ = to_layout(forward_desc.weights_desc());
  NPU_TRY(conv->forward_, Primitive::create(context, forward_desc.get(),
                                            {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}));
  if (needs_input_gradient) {
    const auto data_desc = builder.backward_data(free_forward);
    conv->backward_layout_ = to_layout(data_desc.weights_desc());
    NPU_TRY(conv->backward_data_,
            Primitive::create(context, data_desc.get(),
                              {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}));
  }
  conv->plain_ = to_layout(builder.weights(memory::format_tag::oihw));
  NPU_TRY_VOID(conv->make_reorders(context));
  return conv;
} catch (const dnnl::error& e) {
  return fail(Code::kInternal,
              "create a convolution {}x{}x{} -> {} channels, kernel {}: oneDNN says {}", shape.in_h,
              shape.in_w, shape.in_c, shape.out_c, shape.kernel, e.what());
}

Result<std::unique_ptr<Convolution>> Convolution::for_evaluation(std::shared_ptr<Context> context,
                                                                 const ConvShape& shape,
                                                                 const Convolution* trained) try {
  const Builder builder(*context, shape);
  auto conv = std::unique_ptr<Convolution>(new Convolution());
  conv->shape_ = shape;
  Forward::primitive_desc desc =
      builder.forward(trained == nullptr ? builder.weights(memory::format_tag::any)
                                         : to_desc(trained->forward_layout_));
  if (trained != nullptr && is_slow(desc.impl_info_str())) {
    desc = builder.forward(to_desc(trained->master_));
  }
  conv->forward_layout_ = to_layout(desc.weights_desc());
  conv->master_ = trained == nullptr ? conv->forward_layout_ : trained->master_;
  NPU_TRY(conv->forward_,
          Primitive::create(context, desc.get(), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}));
  conv->plain_ = to_layout(builder.weights(memory::format_tag::oihw));
  NPU_TRY_VOID(conv->make_reorders(context));
  return conv;
} catch (const dnnl::error& e) {
  return fail(Code::kInternal,
              "create a convolution {}x{}x{} -> {} channels, kernel {}: oneDNN says {}", shape.in_h,
              shape.in_w, shape.in_c, shape.out_c, shape.kernel, e.what());
}

Result<void> Convolution::make_reorders(const std::shared_ptr<Context>& context) {
  if (forward_layout_ != master_) {
    NPU_TRY(to_forward_, Primitive::reorder(context, master_, forward_layout_));
  }
  if (!backward_layout_.empty() && backward_layout_ != master_) {
    NPU_TRY(to_backward_, Primitive::reorder(context, master_, backward_layout_));
  }
  NPU_TRY(to_plain_, Primitive::reorder(context, master_, plain_));
  NPU_TRY(from_plain_, Primitive::reorder(context, plain_, master_));
  return {};
}

uint64_t Convolution::forward_weights_bytes() const noexcept {
  return to_forward_ ? layout_bytes(forward_layout_) : 0;
}

uint64_t Convolution::backward_weights_bytes() const noexcept {
  return to_backward_ ? layout_bytes(backward_layout_) : 0;
}

uint64_t Convolution::scratch_bytes() const noexcept {
  uint64_t most = 0;
  for (const auto* primitive : {&forward_, &backward_data_, &backward_weights_, &to_forward_,
                                &to_backward_, &to_plain_, &from_plain_, &gemm_to_master_}) {
    if (*primitive) most = std::max(most, (*primitive)->scratch_bytes());
  }
  return most;
}

std::string Convolution::implementations() const {
  std::string names(forward_->implementation());
  if (backward_data_) names += " / " + std::string(backward_data_->implementation());
  if (backward_weights_) names += " / " + std::string(backward_weights_->implementation());
  if (gemm_) names += " / gathered sgemm";
  return names;
}

void Convolution::make_forward_weights(const float* master, float* forward, std::byte* scratch) {
  to_forward_->execute({master, forward}, scratch);
}

void Convolution::make_backward_weights(const float* master, float* backward, std::byte* scratch) {
  to_backward_->execute({master, backward}, scratch);
}

void Convolution::forward(const float* src, const float* forward_weights, float* dst,
                          std::byte* scratch) {
  forward_->execute({src, forward_weights, dst}, scratch);
}

void Convolution::backward_data(const float* diff_dst, const float* backward_weights,
                                float* diff_src, std::byte* scratch) {
  backward_data_->execute({diff_dst, backward_weights, diff_src}, scratch);
}

void Convolution::backward_weights(const float* src, const float* diff_dst, float* diff_weights,
                                   std::byte* scratch) {
  backward_weights_->execute({src, diff_dst, diff_weights}, scratch);
}

void Convolution::gemm_to_master(const float* gradient, float* master, std::byte* scratch) {
  gemm_to_master_->execute({gradient, master}, scratch);
}

void Convolution::to_plain(const float* master, float* plain, std::byte* scratch) {
  to_plain_->execute({master, plain}, scratch);
}

void Convolution::from_plain(const float* plain, float* master, std::byte* scratch) {
  from_plain_->execute({plain, master}, scratch);
}

}  // namespace npu::model
