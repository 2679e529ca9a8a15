// Wraps oneDNN's execution: argument lists and memory handles are made once.
#include <array>
#include <cstring>
#include <dnnl.hpp>

#include "model/primitives/primitive.hpp"
#include "model/profile.hpp"

namespace npu::model {
namespace {

constexpr size_t kMaxArgs = 6;

dnnl::memory::desc to_desc(const Layout& layout) {
  dnnl_memory_desc_t raw;
  NPU_CHECK(layout.bytes().size() == sizeof(raw));
  std::memcpy(&raw, layout.bytes().data(), sizeof(raw));
  return dnnl::memory::desc(raw);
}

/// Operation descriptor of `desc`. The tensors of a direction that it has not got have no
/// dimensions.
template <typename Desc>
const Desc& operation(const dnnl_primitive_desc* desc, dnnl_query_t what) {
  const Desc* found = nullptr;
  dnnl::error::wrap_c_api(dnnl_primitive_desc_query(desc, what, 0, static_cast<void*>(&found)),
                          "query the operation");
  return *found;
}

const dnnl_memory_desc_t& used(const dnnl_memory_desc_t& a, const dnnl_memory_desc_t& b) {
  return a.ndims != 0 ? a : b;
}

/// 2 a multiply-add: values of the output times values of one output channel's weights.
template <typename Desc>
uint64_t flops_of(const Desc& d) {
  const dnnl_memory_desc_t& out = used(d.dst_desc, d.diff_dst_desc);
  const dnnl_memory_desc_t& weights = used(d.weights_desc, d.diff_weights_desc);
  uint64_t flops = 2;
  for (int i = 0; i < out.ndims; ++i) flops *= static_cast<uint64_t>(out.dims[i]);
  for (int i = 1; i < weights.ndims; ++i) flops *= static_cast<uint64_t>(weights.dims[i]);
  return flops;
}

KernelKind conv_kind(dnnl_prop_kind_t direction) {
  if (direction == dnnl_backward_data) return KernelKind::kConvBackwardData;
  return direction == dnnl_backward_weights ? KernelKind::kConvBackwardWeights
                                            : KernelKind::kConvForward;
}

/// Kind and arithmetic of a primitive; its bytes are the caller's to add.
KernelWork work_of(const dnnl_primitive_desc* desc) {
  dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
  dnnl::error::wrap_c_api(
      dnnl_primitive_desc_query(desc, dnnl_query_primitive_kind, 0, static_cast<void*>(&kind)),
      "query the kind");
  if (kind == dnnl_convolution) {
    const auto& conv = operation<dnnl_convolution_desc_t>(desc, dnnl_query_convolution_d);
    return {conv_kind(conv.prop_kind), flops_of(conv)};
  }
  if (kind == dnnl_inner_product) {
    const auto& fc = operation<dnnl_inner_product_desc_t>(desc, dnnl_query_inner_product_d);
    return {KernelKind::kFc, flops_of(fc)};
  }
  return {kind == dnnl_pooling ? KernelKind::kPool : KernelKind::kReorder};
}

}  // namespace

bool operator==(const Layout& a, const Layout& b) noexcept {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  return to_desc(a) == to_desc(b);
}

std::string Layout::signature() const {
  const dnnl_memory_desc_t& md = to_desc(*this).data;
  const dnnl_blocking_desc_t& blocking = md.format_desc.blocking;
  std::string text;
  for (int i = 0; i < md.ndims; ++i) {
    text += fmt::format("{}:{} ", md.padded_dims[i], blocking.strides[i]);
  }
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    text += fmt::format("/{}@{}", blocking.inner_blks[i], blocking.inner_idxs[i]);
  }
  return text;
}

struct Context::Handles {
  dnnl::engine engine;
  dnnl::stream stream;
};

Context::Context(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}
Context::~Context() = default;

Result<std::shared_ptr<Context>> Context::create() {
  try {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    auto handles = std::make_unique<Handles>(Handles{engine, dnnl::stream(engine)});
    return std::shared_ptr<Context>(new Context(std::move(handles)));
  } catch (const dnnl::error& e) {
    return fail(Code::kInternal, "create a oneDNN CPU engine: {}; check the libdnnl installation",
                e.what());
  }
}

dnnl_engine* Context::engine() const noexcept { return handles_->engine.get(); }
dnnl_stream* Context::stream() const noexcept { return handles_->stream.get(); }

struct Primitive::State {
  std::shared_ptr<Context> context;
  dnnl::primitive primitive;
  std::array<dnnl::memory, kMaxArgs + 1> memories;  // the last one in use is the scratchpad
  std::array<dnnl_exec_arg_t, kMaxArgs + 1> args{};
  size_t count = 0;  // without the scratchpad
  uint64_t scratch_bytes = 0;
  std::string implementation;
  KernelWork work;

  void add(const dnnl::memory::desc& desc, const dnnl::engine& engine, int arg, size_t at) {
    memories[at] = dnnl::memory(desc, engine, DNNL_MEMORY_NONE);
    args[at] = {arg, memories[at].get()};
  }
};

Primitive::Primitive(std::unique_ptr<State> state) : state_(std::move(state)) {}
Primitive::~Primitive() = default;

Result<std::unique_ptr<Primitive>> Primitive::create(std::shared_ptr<Context> context,
                                                     const dnnl_primitive_desc* desc,
                                                     std::initializer_list<int> args) {
  NPU_CHECK(args.size() <= kMaxArgs);
  try {
    dnnl::engine engine(context->engine(), true);
    auto state = std::make_unique<State>();
    state->work = work_of(desc);
    dnnl_primitive_t raw = nullptr;
    dnnl::error::wrap_c_api(dnnl_primitive_create(&raw, desc), "create primitive");
    state->primitive.reset(raw);
    const auto md_of = [&](int arg) {
      return dnnl::memory::desc(*dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg));
    };
    for (const int arg : args) {
      state->add(md_of(arg), engine, arg, state->count);
      state->work.bytes += md_of(arg).get_size();
      ++state->count;
    }
    const dnnl::memory::desc scratch = md_of(DNNL_ARG_SCRATCHPAD);
    state->scratch_bytes = scratch.get_size();
    state->add(scratch, engine, DNNL_ARG_SCRATCHPAD, state->count);
    const char* name = nullptr;
    dnnl::error::wrap_c_api(
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, static_cast<void*>(&name)),
        "query the implementation");
    state->implementation = name;
    state->context = std::move(context);
    return std::unique_ptr<Primitive>(new Primitive(std::move(state)));
  } catch (const dnnl::error& e) {
    return fail(Code::kInternal, "create a oneDNN primitive: {}", e.what());
  }
}

Result<std::unique_ptr<Primitive>> Primitive::reorder(std::shared_ptr<Context> context,
                                                      const Layout& from, const Layout& to) {
  try {
    dnnl::engine engine(context->engine(), true);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::reorder::primitive_desc desc(engine, to_desc(from), engine, to_desc(to), attr);
    return create(std::move(context), desc.get(), {DNNL_ARG_FROM, DNNL_ARG_TO});
  } catch (const dnnl::error& e) {
    return fail(Code::kInternal, "create a oneDNN reorder: {}", e.what());
  }
}

void Primitive::execute(std::initializer_list<const void*> data, std::byte* scratch) {
  State& s = *state_;
  NPU_CHECK(data.size() == s.count);
  size_t i = 0;
  for (const void* pointer : data) {
    // oneDNN takes inputs and outputs alike as void*; it does not write to inputs.
    dnnl_memory_set_data_handle(s.args[i].memory, const_cast<void*>(pointer));
    ++i;
  }
  dnnl_memory_set_data_handle(s.args[s.count].memory, scratch);
  const Timed timed(s.context->profile(), nullptr, s.work);
  const dnnl_status_t status = dnnl_primitive_execute(s.primitive.get(), s.context->stream(),
                                                      static_cast<int>(s.count + 1), s.args.data());
  NPU_CHECK_MSG(status == dnnl_success, s.implementation);
}

uint64_t Primitive::scratch_bytes() const noexcept { return state_->scratch_bytes; }
std::string_view Primitive::implementation() const noexcept { return state_->implementation; }

uint64_t layout_bytes(const Layout& layout) noexcept { return to_desc(layout).get_size(); }

}  // namespace npu::model
