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

memory::data_type data_type(Operands operands) {
  return operands == Operands::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// oneDNN's view of one ConvShape.
struct Builder {
  Builder(const Context& context, const ConvShape& shape, Operands operands = Operands::kFp32)
      : engine(context.engine(), true),
        operand(data_type(operands)),
        src_dims{shape.batch, shape.in_c, shape.in_h, shape.in_w},
        weights_dims{shape.out_c, shape.in_c, shape.kernel, shape.kernel},
        dst_dims{shape.batch, shape.out_c, shape.out_h(), shape.out_w()},
        strides{shape.stride, shape.stride},
        pad{shape.pad(), shape.pad()} {
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  [[nodiscard]] static memory::desc map(const memory::dims& dims, memory::data_type type) {
    return {dims, type, memory::format_tag::nhwc};
  }
  [[nodiscard]] memory::desc weights(memory::format_tag tag, memory::data_type type) const {
    return {weights_dims, type, tag};
  }
  [[nodiscard]] memory::desc any_weights() const {
    return weights(memory::format_tag::any, operand);
  }
  [[nodiscard]] memory::desc plain(memory::format_tag tag) const {
    return weights(tag, memory::data_type::f32);
  }
  [[nodiscard]] Forward::primitive_desc forward(const memory::desc& w) const {
    return forward_to(w, memory::data_type::f32);
  }
  /// What the backward primitives ask for: the forward one with all tensors in the operands' type.
  [[nodiscard]] Forward::primitive_desc hint() const { return forward_to(any_weights(), operand); }
  [[nodiscard]] BackwardData::primitive_desc backward_data() const {
    return {{dnnl::algorithm::convolution_direct, map(src_dims, memory::data_type::f32),
             any_weights(), map(dst_dims, operand), strides, pad, pad},
            attr,
            engine,
            hint()};
  }
  [[nodiscard]] BackwardWeights::primitive_desc backward_weights() const {
    return {{dnnl::algorithm::convolution_direct, map(src_dims, operand),
             plain(memory::format_tag::any), map(dst_dims, operand), strides, pad, pad},
            attr,
            engine,
            hint()};
  }

  dnnl::engine engine;
  dnnl::primitive_attr attr;
  memory::data_type operand;
  memory::dims src_dims;
  memory::dims weights_dims;
  memory::dims dst_dims;
  memory::dims strides;
  memory::dims pad;

 private:
  [[nodiscard]] Forward::primitive_desc forward_to(const memory::desc& w,
                                                   memory::data_type dst) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
             map(src_dims, operand), w, map(dst_dims, dst), strides, pad, pad},
            attr,
            engine};
  }
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

/// The forward primitive of training in fp32: it reads the layout of the weight gradient, unless that is slower.
Forward::primitive_desc fp32_forward(const Builder& builder, const ConvShape& shape) {
  auto free = builder.forward(builder.any_weights());
  if (WeightGemm::pays(shape) || wants_own_layout(shape)) return free;
  auto shared = builder.forward(builder.backward_weights().diff_weights_desc());
  return is_slow(shared.impl_info_str()) ? free : shared;
}

}  // namespace

bool has_bf16_products() noexcept {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

Convolution::~Convolution() = default;

Result<std::unique_ptr<Convolution>> Convolution::for_training(std::shared_ptr<Context> context,
                                                               const ConvShape& shape,
                                                               bool needs_input_gradient,
                                                               Operands operands) try {
  const Builder builder(*context, shape, operands);
  auto conv = std::unique_ptr<Convolution>(new Convolution());
  conv->shape_ = shape;
  conv->operands_ = operands;
  const bool fp32 = operands == Operands::kFp32;
  const Forward::primitive_desc forward_desc =
      fp32 ? fp32_forward(builder, shape) : builder.forward(builder.any_weights());
  if (fp32 && WeightGemm::pays(shape)) {
    conv->gemm_ = std::make_unique<WeightGemm>(shape);
    conv->master_ = to_layout(forward_desc.weights_desc());
    const Layout product = to_layout(builder.plain(memory::format_tag::ohwi));
    NPU_TRY(conv->gemm_to_master_, Primitive::reorder(context, product, conv->master_));
  } else {
    const auto weights_desc = builder.backward_weights();
    conv->master_ = to_layout(weights_desc.diff_weights_desc());
    NPU_TRY(conv->backward_weights_,
            Primitive::create(context, weights_desc.get(),
                              {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}));
  }
  conv->forward_layout_ = to_layout(forward_desc.weights_desc());
  NPU_TRY(conv->forward_, Primitive::create(context, forward_desc.get(),
                                            {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}));
  if (needs_input_gradient) {
    const auto data_desc = builder.backward_data();
    conv->backward_layout_ = to_layout(data_desc.weights_desc());
    NPU_TRY(conv->backward_data_,
            Primitive::create(context, data_desc.get(),
                              {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}));
  }
  conv->plain_ = to_layout(builder.plain(memory::format_tag::oihw));
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
  memory::desc weights = builder.any_weights();
  if (trained != nullptr && trained->operands_ == Operands::kFp32) {
    weights = to_desc(trained->forward_layout_);
  } else if (trained != nullptr) {
    // What fp32 operands would have: the bits of an evaluation do not depend on how was trained.
    weights = fp32_forward(Builder(*context, trained->shape_), trained->shape_).weights_desc();
  }
  Forward::primitive_desc desc = builder.forward(weights);
  if (trained != nullptr && is_slow(desc.impl_info_str())) {
    const bool same_type = trained->operands_ == Operands::kFp32;
    desc = builder.forward(same_type ? to_desc(trained->master_) : builder.any_weights());
  }
  conv->forward_layout_ = to_layout(desc.weights_desc());
  conv->master_ = trained == nullptr ? conv->forward_layout_ : trained->master_;
  NPU_TRY(conv->forward_,
          Primitive::create(context, desc.get(), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}));
  conv->plain_ = to_layout(builder.plain(memory::format_tag::oihw));
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

void Convolution::make_forward_weights(const float* master, void* forward, std::byte* scratch) {
  to_forward_->execute({master, forward}, scratch);
}

void Convolution::make_backward_weights(const float* master, void* backward, std::byte* scratch) {
  to_backward_->execute({master, backward}, scratch);
}

void Convolution::forward(const void* src, const void* forward_weights, float* dst,
                          std::byte* scratch) {
  forward_->execute({src, forward_weights, dst}, scratch);
}

void Convolution::backward_data(const void* diff_dst, const void* backward_weights,
                                float* diff_src, std::byte* scratch) {
  backward_data_->execute({diff_dst, backward_weights, diff_src}, scratch);
}

void Convolution::backward_weights(const void* src, const void* diff_dst, float* diff_weights,
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
