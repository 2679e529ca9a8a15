// The public face: checks arguments and state, then hands over to the walks.
#include "model/network.hpp"

#include <omp.h>

#include <algorithm>

#include "model/network_impl.hpp"

namespace npu::model {

namespace {

Format format_of(DType dtype) {
  if (dtype == DType::kFloat16) return Format::kFp16;
  return dtype == DType::kBFloat16 ? Format::kBf16 : Format::kFp32;
}

}  // namespace

Network::Impl::Impl(const NetworkConfig& wanted, Graph built)
    : config(wanted),
      graph(std::move(built)),
      passes(default_kernels(format_of(wanted.dtype)), wanted.threads),
      fp32_passes(default_kernels(Format::kFp32), wanted.threads) {}

Network::Network(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

Result<Network> Network::plan(const NetworkConfig& config) {
  NPU_TRY(Graph graph, build_graph(config));
  // oneDNN fixes how it splits work when a primitive is created.
  omp_set_num_threads(config.threads);
  NPU_TRY(std::shared_ptr<Context> context, Context::create());
  auto impl = std::make_unique<Impl>(config, std::move(graph));
  NPU_TRY_VOID(build_primitives(impl->graph, config, context));
  impl->parameters = build_parameters(impl->graph, config);
  impl->make_plan();
  impl->make_state();
  impl->context = std::move(context);
  return Network(std::move(impl));
}

const NetworkConfig& Network::config() const noexcept { return impl_->config; }
const MemoryPlan& Network::memory() const noexcept { return impl_->plan; }
Result<void> Network::bind(Allocator& allocator) { return impl_->bind(allocator); }

void Network::initialise(uint64_t seed) {
  NPU_CHECK(impl_->bound);
  impl_->initialise(seed);
}

Result<LossAndHits> Network::forward_train(std::span<const float> images,
                                           std::span<const int32_t> labels) {
  Impl& m = *impl_;
  NPU_CHECK(m.bound);
  if (!m.config.training) {
    return fail(Code::kFailedPrecondition,
                "forward_train on a network planned for evaluation; plan it with training = true");
  }
  const auto n = static_cast<size_t>(m.config.batch);
  if (images.size() != n * m.graph.stem.in_image() || labels.size() != n) {
    return fail(Code::kInvalidArgument,
                "forward_train: {} image values and {} labels; expected {} samples of {} values",
                images.size(), labels.size(), n, m.graph.stem.in_image());
  }
  omp_set_num_threads(m.config.threads);
  m.step_pending = false;
  m.images = images.data();
  m.forward_walk();
  const size_t logits = n * static_cast<size_t>(m.config.num_classes);
  const Timed timed(m.profile, m.train.logits, {KernelKind::kLoss, 0, 2 * logits * sizeof(float)});
  auto loss = softmax_cross_entropy({m.train.logits, logits}, labels, m.config.num_classes,
                                    m.config.label_smoothing, 1.0F / static_cast<float>(n),
                                    {m.train.logit_gradient, logits});
  m.step_pending = loss.has_value();
  return loss;
}

Result<void> Network::backward(const BucketReady& on_bucket_ready, float gradient_scale) {
  Impl& m = *impl_;
  if (!m.step_pending) {
    return fail(Code::kFailedPrecondition,
                "backward without a forward_train before it; run one for each backward");
  }
  omp_set_num_threads(m.config.threads);
  m.step_pending = false;
  m.backward_walk(on_bucket_ready, gradient_scale);
  return {};
}

void Network::sync_batch_norm(BatchNormSync sync) {
  NPU_CHECK(!sync.sum || sync.staging.size() >= sync_staging());
  impl_->sync = std::move(sync);
}

size_t Network::sync_staging() const noexcept {
  size_t channels = 0;
  impl_->graph.each_unit(
      [&](ConvBn& unit) { channels = std::max(channels, static_cast<size_t>(unit.shape.out_c)); });
  return 2 * channels;
}

size_t Network::bucket_count() const noexcept {
  return impl_->config.training ? impl_->parameters.buckets().size() : 0;
}

std::span<float> Network::gradient_bucket(size_t i) noexcept {
  const auto buckets = impl_->parameters.buckets();
  NPU_CHECK(impl_->gradient_memory != nullptr && i < buckets.size());
  const bool last = i + 1 == buckets.size();
  const uint64_t size =
      buckets[i].end - buckets[i].begin + (last ? ParameterTable::kMetricsFloats : 0);
  return {impl_->gradient_memory + buckets[i].begin, size};
}

std::span<float> Network::metrics_slot() noexcept {
  NPU_CHECK(impl_->gradient_memory != nullptr);
  return {impl_->gradient_memory + impl_->parameters.flat_floats(), ParameterTable::kMetricsFloats};
}

void Network::sgd_step(size_t i, const SgdParams& params) noexcept {
  Impl& m = *impl_;
  NPU_CHECK(m.momentum_memory != nullptr && i < bucket_count());
  omp_set_num_threads(m.config.threads);
  const Bucket& bucket = m.parameters.buckets()[i];
  SgdArgs args{.parameters = nullptr,
               .momentum = nullptr,
               .gradient = nullptr,
               .lr = params.lr,
               .mu = params.momentum,
               .decay = 0,
               .gradient_scale = params.gradient_scale,
               .nesterov = params.nesterov,
               .tf = params.form == MomentumForm::kTf};
  // Neighbours of one decay are one run: with decay for all, a bucket is a single pass.
  uint64_t begin = bucket.begin;
  bool run_decays = false;
  const auto flush = [&](uint64_t end) {
    if (end <= begin) return;
    args.parameters = m.parameter_memory + begin;
    args.momentum = m.momentum_memory + begin;
    args.gradient = m.gradient_memory + begin;
    args.decay = run_decays ? params.weight_decay : 0.0F;
    m.passes.sgd(args, end - begin);
    begin = end;
  };
  for (const size_t index : m.parameters.order()) {
    const Parameter& parameter = m.parameters[index];
    if (parameter.offset < bucket.begin || parameter.offset >= bucket.end) continue;
    const bool decay = decays(params.decay, parameter.role);
    if (decay != run_decays) {
      flush(parameter.offset);
      run_decays = decay;
    }
  }
  flush(bucket.end);
  parameters_changed();
}

Result<std::span<const float>> Network::forward_eval(std::span<const float> images, int n) {
  NPU_CHECK(impl_->bound);
  omp_set_num_threads(impl_->config.threads);
  return impl_->evaluate_batch(images, n);
}

Result<LossAndHits> Network::evaluate(std::span<const float> logits,
                                      std::span<const int32_t> labels) const {
  return softmax_cross_entropy(logits, labels, impl_->config.num_classes, 0, 1, {});
}

void Network::set_profile(Profile* profile) {
  Impl& m = *impl_;
  NPU_CHECK(m.bound);
  m.profile = profile;
  m.passes.set_profile(profile);
  m.context->set_profile(profile);
  if (profile == nullptr) return;
  m.graph.each_unit([&](const ConvBn& unit) { profile->name(&unit.bn, unit.conv_name); });
  profile->name(&m.graph.train_pool, "maxpool");
  profile->name(&m.graph.train_fc, "fc");
  profile->name(m.train.logits, "loss");
  profile->name(&m.passes, "sgd");
}

std::span<const StateEntry> Network::state() const noexcept { return impl_->entries; }

void Network::export_state(size_t i, std::span<float> out) const {
  Impl& m = *impl_;
  NPU_CHECK(m.bound && i < m.entries.size() && out.size() == m.entries[i].count);
  const StateRef& ref = m.entry_refs[i];
  if (m.entries[i].kind == StateKind::kParameter) {
    m.to_plain(ref.parameter, m.parameter_memory, out);
    return;
  }
  NPU_CHECK(m.entries[i].kind == StateKind::kBuffer);
  const float* from = ref.variance ? ref.unit->bn.running_var : ref.unit->bn.running_mean;
  std::copy_n(from, out.size(), out.data());
}

void Network::import_state(size_t i, std::span<const float> values) {
  Impl& m = *impl_;
  NPU_CHECK(m.bound && i < m.entries.size() && values.size() == m.entries[i].count);
  const StateRef& ref = m.entry_refs[i];
  if (m.entries[i].kind == StateKind::kParameter) {
    m.from_plain(ref.parameter, values, m.parameter_memory);
    parameters_changed();
    return;
  }
  NPU_CHECK(m.entries[i].kind == StateKind::kBuffer);
  float* to = ref.variance ? ref.unit->bn.running_var : ref.unit->bn.running_mean;
  std::copy_n(values.data(), values.size(), to);
}

void Network::export_momentum(size_t i, std::span<float> out) const {
  Impl& m = *impl_;
  NPU_CHECK(m.momentum_memory != nullptr && m.entries[i].kind == StateKind::kParameter);
  m.to_plain(m.entry_refs[i].parameter, m.momentum_memory, out);
}

void Network::import_momentum(size_t i, std::span<const float> values) {
  Impl& m = *impl_;
  NPU_CHECK(m.momentum_memory != nullptr && m.entries[i].kind == StateKind::kParameter);
  m.from_plain(m.entry_refs[i].parameter, values, m.momentum_memory);
}

void Network::export_gradient(size_t i, std::span<float> out) const {
  Impl& m = *impl_;
  NPU_CHECK(m.gradient_memory != nullptr && m.entries[i].kind == StateKind::kParameter);
  m.to_plain(m.entry_refs[i].parameter, m.gradient_memory, out);
}

int64_t Network::batches_tracked(size_t i) const {
  NPU_CHECK(impl_->entries[i].kind == StateKind::kBatchesTracked);
  return impl_->entry_refs[i].unit->batches_tracked;
}

void Network::set_batches_tracked(size_t i, int64_t value) {
  NPU_CHECK(impl_->entries[i].kind == StateKind::kBatchesTracked);
  impl_->entry_refs[i].unit->batches_tracked = value;
}

std::span<float> Network::parameters_flat() noexcept {
  return {impl_->parameter_memory, impl_->bound ? impl_->parameters.flat_floats() : 0};
}

std::span<float> Network::momentum_flat() noexcept {
  return {impl_->momentum_memory,
          impl_->momentum_memory == nullptr ? 0 : impl_->parameters.flat_floats()};
}

std::span<float> Network::bn_buffers() noexcept {
  return {impl_->buffer_memory, impl_->bound ? impl_->graph.buffer_floats : 0};
}

void Network::parameters_changed() noexcept {
  impl_->graph.each_unit([](ConvBn& unit) { unit.forward_stale = true; });
}

uint64_t Network::layout_hash() const noexcept { return impl_->parameters.hash(); }
uint64_t Network::parameter_count() const noexcept { return impl_->parameters.element_count(); }

}  // namespace npu::model
