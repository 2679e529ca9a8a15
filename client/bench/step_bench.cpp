#include "client/bench/step_bench.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "client/bench/process_usage.hpp"
#include "client/bench/step_bench_common.hpp"
#include "model/step_work.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {
namespace {

/// A network with a fixed batch of noise.
struct Rig {
  model::HeapAllocator heap;
  model::Network network;
  std::vector<float> images;
  std::vector<int32_t> labels;

  [[nodiscard]] Result<void> step(const model::SgdParams& sgd) {
    NPU_TRY_VOID(network.forward_train(images, labels));
    NPU_TRY_VOID(network.backward({}));
    for (size_t i = 0; i < network.bucket_count(); ++i) network.sgd_step(i, sgd);
    return {};
  }

  void fill(const model::NetworkConfig& config) {
    const auto n = static_cast<size_t>(config.batch);
    std::mt19937 random(1);
    std::normal_distribution<float> pixel;
    std::uniform_int_distribution<int32_t> label(0, config.num_classes - 1);
    images.resize(n * static_cast<size_t>(config.height) * static_cast<size_t>(config.width) *
                  static_cast<size_t>(config.channels));
    std::ranges::generate(images, [&] { return pixel(random); });
    labels.resize(n);
    std::ranges::generate(labels, [&] { return label(random); });
  }
};

/// Of all threads of this process.
double cpu_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

/// Rows for people: most time first, and what is left of `total_seconds`.
std::vector<model::ProfileRow> finished(const model::Profile& profile, double total_seconds) {
  std::vector<model::ProfileRow> rows = profile.rows();
  std::ranges::sort(rows, std::ranges::greater{}, &model::ProfileRow::seconds);
  for (const model::ProfileRow& row : rows) total_seconds -= row.seconds;
  rows.push_back({.layer = "network", .kind = model::KernelKind::kOther});
  rows.back().seconds = std::max(0.0, total_seconds);
  return rows;
}

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

model::NetworkConfig network_config(const StepBenchOptions& o) {
  model::NetworkConfig c;
  c.arch = o.arch;
  c.num_classes = o.classes;
  c.channels = o.channels;
  c.height = o.image_size;
  c.width = o.image_size;
  c.batch = o.batch;
  c.dtype = o.dtype;
  c.threads = o.threads;
  return c;
}

Result<StepBenchResult> summarise(const StepBenchOptions& o, std::vector<double> step_ms) {
  NPU_TRY(const model::StepWork work, model::step_work(network_config(o)));
  StepBenchResult result;
  result.p50_ms = median(step_ms);  // sorts
  const auto rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(step_ms.size())));
  result.p99_ms = step_ms[std::max<size_t>(rank, 1) - 1];
  result.img_s = static_cast<double>(o.batch) * o.ranks / (result.p50_ms * 1e-3);
  result.gflops = result.img_s * static_cast<double>(work.training_flops()) * 1e-9;
  return result;
}

Result<void> check_step_bench(const StepBenchOptions& options) {
  if (auto work = model::step_work(network_config(options)); !work) {
    Error error = std::move(work.error());
    error.exit = Exit::kUsage;
    return tl::unexpected(std::move(error));
  }
  return {};
}

Result<StepBenchResult> run_step_bench(const StepBenchOptions& o) {
  const model::NetworkConfig config = network_config(o);
  NPU_TRY(auto network, model::Network::plan(config));
  Rig rig{.heap = {}, .network = std::move(network), .images = {}, .labels = {}};
  NPU_TRY_VOID(rig.network.bind(rig.heap));
  rig.network.initialise(0);
  rig.fill(config);
  const model::SgdParams sgd{.lr = kBenchRate, .momentum = 0.9F, .weight_decay = 1e-4F};
  // Other programs distort processor time less; of several threads it would have to be added up.
  const bool one_thread = o.threads == 1;
  model::Profile profile(one_thread ? model::Profile::Clock::kThread
                                    : model::Profile::Clock::kWall);
  double profiled_ns = 0;
  std::vector<double> step_ms, step_cpu_ms;
  for (int i = 0; i < o.warmup + o.steps; ++i) {
    if (o.profile && i == o.warmup) rig.network.set_profile(&profile);
    const int64_t begin_ns = profile.now_ns();
    const auto begin = Clock::now();
    const double cpu_begin = cpu_ms();
    NPU_TRY_VOID(rig.step(sgd));
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    if (i < o.warmup) continue;
    profiled_ns += static_cast<double>(profile.now_ns() - begin_ns);
    step_ms.push_back(took.count());
    step_cpu_ms.push_back(cpu_ms() - cpu_begin);
  }
  NPU_TRY(StepBenchResult result, summarise(o, std::move(step_ms)));
  NPU_TRY(const ProcessMemory memory, process_memory("self"));
  result.peak_bytes = memory.peak_bytes;
  result.cpu_ms = median(step_cpu_ms);
  if (o.profile) result.profile = finished(profile, 1e-9 * profiled_ns);
  result.activation_bytes = rig.network.memory().activations;
  return result;
}

}  // namespace npu::client
