// Builds the inner-product primitives.
#include <algorithm>
#include <dnnl.hpp>

#include "model/primitives/linear.hpp"

namespace npu::model {
namespace {

using dnnl::memory;
using Forward = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

Layout to_layout(const memory::desc& desc) {
  return Layout(std::string(reinterpret_cast<const char*>(&desc.data), sizeof(desc.data)));
}

memory::desc matrix(int rows, int columns, memory::format_tag tag) {
  return memory::desc({rows, columns}, memory::data_type::f32, tag);
}

}  // namespace

Linear::~Linear() = default;

Result<std::unique_ptr<Linear>> Linear::create(std::shared_ptr<Context> context, int batch, int in,
                                               int out, bool training, const Linear* trained) try {
  const dnnl::engine engine(context->engine(), true);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto src = matrix(batch, in, memory::format_tag::ab);
  const auto dst = matrix(batch, out, memory::format_tag::ab);
  const auto any = matrix(out, in, memory::format_tag::any);
  const memory::desc bias({out}, memory::data_type::f32, memory::format_tag::a);
  auto linear = std::unique_ptr<Linear>(new Linear());

  const Forward::primitive_desc forward_desc(
      {dnnl::prop_kind::forward_training, src, any, bias, dst}, attr, engine);
  linear->forward_layout_ = to_layout(forward_desc.weights_desc());
  linear->master_ = trained == nullptr ? linear->forward_layout_ : trained->master_;
  NPU_TRY(linear->forward_,
          Primitive::create(context, forward_desc.get(),
                            {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}));
  if (training) {
    const BackwardWeights::primitive_desc weights_desc({src, any, bias, dst}, attr, engine,
                                                       forward_desc);
    linear->master_ = to_layout(weights_desc.diff_weights_desc());
    NPU_TRY(linear->backward_weights_,
            Primitive::create(
                context, weights_desc.get(),
                {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS}));
    const BackwardData::primitive_desc data_desc({src, any, dst}, attr, engine, forward_desc);
    linear->backward_layout_ = to_layout(data_desc.weights_desc());
    NPU_TRY(linear->backward_data_,
            Primitive::create(context, data_desc.get(),
                              {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}));
    if (linear->backward_layout_ != linear->master_) {
      NPU_TRY(linear->to_backward_,
              Primitive::reorder(context, linear->master_, linear->backward_layout_));
    }
  }
  if (linear->forward_layout_ != linear->master_) {
    NPU_TRY(linear->to_forward_,
            Primitive::reorder(context, linear->master_, linear->forward_layout_));
  }
  linear->plain_ = to_layout(matrix(out, in, memory::format_tag::ab));
  NPU_TRY(linear->to_plain_, Primitive::reorder(context, linear->master_, linear->plain_));
  NPU_TRY(linear->from_plain_, Primitive::reorder(context, linear->plain_, linear->master_));
  return linear;
} catch (const dnnl::error& e) {
  return fail(Code::kInternal, "create a linear layer {} -> {}: oneDNN says {}", in, out, e.what());
}

uint64_t Linear::copy_bytes() const noexcept {
  uint64_t most = 0;
  if (to_forward_) most = layout_bytes(forward_layout_);
  if (to_backward_) most = std::max(most, layout_bytes(backward_layout_));
  return most;
}

uint64_t Linear::scratch_bytes() const noexcept {
  uint64_t most = 0;
  for (const auto* primitive : {&forward_, &backward_data_, &backward_weights_, &to_forward_,
                                &to_backward_, &to_plain_, &from_plain_}) {
    if (*primitive) most = std::max(most, (*primitive)->scratch_bytes());
  }
  return most;
}

void Linear::forward(const float* src, const float* weights, const float* bias, float* dst,
                     float* copy, std::byte* scratch) {
  if (to_forward_) to_forward_->execute({weights, copy}, scratch);
  forward_->execute({src, to_forward_ ? copy : weights, bias, dst}, scratch);
}

void Linear::backward_data(const float* diff_dst, const float* weights, float* diff_src,
                           float* copy, std::byte* scratch) {
  if (to_backward_) to_backward_->execute({weights, copy}, scratch);
  backward_data_->execute({diff_dst, to_backward_ ? copy : weights, diff_src}, scratch);
}

void Linear::backward_weights(const float* src, const float* diff_dst, float* diff_weights,
                              float* diff_bias, std::byte* scratch) {
  backward_weights_->execute({src, diff_dst, diff_weights, diff_bias}, scratch);
}

void Linear::to_plain(const float* master, float* plain, std::byte* scratch) {
  to_plain_->execute({master, plain}, scratch);
}

void Linear::from_plain(const float* plain, float* master, std::byte* scratch) {
  from_plain_->execute({plain, master}, scratch);
}

}  // namespace npu::model
