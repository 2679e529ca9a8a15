// Builds the pooling primitives.
#include <algorithm>
#include <dnnl.hpp>

#include "model/primitives/max_pool.hpp"

namespace npu::model {

using dnnl::memory;

MaxPool::~MaxPool() = default;

Result<std::unique_ptr<MaxPool>> MaxPool::create(std::shared_ptr<Context> context, int in_h,
                                                 int in_w, int channels, bool training) try {
  const dnnl::engine engine(context->engine(), true);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto nhwc = [&](int h, int w) {
    return memory::desc({1, channels, h, w}, memory::data_type::f32, memory::format_tag::nhwc);
  };
  const int out_h = (in_h - 1) / 2 + 1;
  const int out_w = (in_w - 1) / 2 + 1;
  const memory::dims strides{2, 2};
  const memory::dims kernel{3, 3};
  const memory::dims pad{1, 1};
  // The window may end one pixel beyond the padded input when a side is even.
  const memory::dims pad_end{2 * (out_h - 1) + 2 - in_h, 2 * (out_w - 1) + 2 - in_w};
  const auto kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::pooling_forward::primitive_desc forward_desc(
      {kind, dnnl::algorithm::pooling_max, nhwc(in_h, in_w), nhwc(out_h, out_w), strides, kernel,
       pad, pad_end},
      attr, engine);
  auto pool = std::unique_ptr<MaxPool>(new MaxPool());
  if (!training) {
    NPU_TRY(pool->forward_,
            Primitive::create(context, forward_desc.get(), {DNNL_ARG_SRC, DNNL_ARG_DST}));
    return pool;
  }
  pool->workspace_bytes_ = forward_desc.workspace_desc().get_size();
  NPU_TRY(pool->forward_, Primitive::create(context, forward_desc.get(),
                                            {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE}));
  const dnnl::pooling_backward::primitive_desc backward_desc(
      {dnnl::algorithm::pooling_max, nhwc(in_h, in_w), nhwc(out_h, out_w), strides, kernel, pad,
       pad_end},
      attr, engine, forward_desc);
  NPU_TRY(pool->backward_,
          Primitive::create(context, backward_desc.get(),
                            {DNNL_ARG_DIFF_DST, DNNL_ARG_WORKSPACE, DNNL_ARG_DIFF_SRC}));
  return pool;
} catch (const dnnl::error& e) {
  return fail(Code::kInternal, "create the stem pooling for {}x{}x{}: oneDNN says {}", in_h, in_w,
              channels, e.what());
}

uint64_t MaxPool::scratch_bytes() const noexcept {
  return std::max(forward_->scratch_bytes(), backward_ ? backward_->scratch_bytes() : 0);
}

void MaxPool::forward(const float* src, float* dst, std::byte* workspace, std::byte* scratch) {
  if (backward_) {
    forward_->execute({src, dst, workspace}, scratch);
  } else {
    forward_->execute({src, dst}, scratch);
  }
}

void MaxPool::backward(const float* diff_dst, const std::byte* workspace, float* diff_src,
                       std::byte* scratch) {
  backward_->execute({diff_dst, workspace, diff_src}, scratch);
}

}  // namespace npu::model
