// The trainer itself on synthetic data, watched through its events: what is measured is what
// trains.
#include <algorithm>

#include "client/api/admin.hpp"
#include "client/bench/job_ranks.hpp"
#include "client/bench/process_usage.hpp"
#include "client/bench/random_job.hpp"
#include "client/bench/step_bench.hpp"
#include "client/bench/step_bench_common.hpp"

namespace npu::client {
namespace {

config::Job bench_job(const StepBenchOptions& o) {
  config::Job job = random_job({.name = "bench-step",
                                .arch = o.arch,
                                .classes = o.classes,
                                .ranks = static_cast<uint32_t>(o.ranks),
                                .batch = o.batch,
                                .steps = o.warmup + o.steps,
                                .image_size = o.image_size,
                                .channels = o.channels});
  job.precision.amp = o.dtype != DType::kFloat32;
  if (job.precision.amp) job.precision.dtype = dtype_name(o.dtype);
  return job;
}

/// All processes at one moment at which every rank holds its device.
Result<uint64_t> peak_of_job(const std::string& socket, const std::string& run) {
  NPU_TRY(const DaemonInfo daemon, query_info(socket));
  uint64_t bytes = 0;
  // Every page of an arena exists, and a rank's process counts only those that it touched: the
  // arena as a whole, and of the process what is not shared memory.
  for (const DeviceInfo& device : daemon.devices) {
    if (device.run != run) continue;
    NPU_TRY(const ProcessMemory memory, process_memory(std::to_string(device.pid)));
    bytes += device.memory_used_bytes + memory.peak_bytes -
             std::min(memory.peak_bytes, memory.shared_bytes);
  }
  return bytes;
}

/// Processor time of the ranks and the daemon so far.
Result<double> cpu_of_job(const std::string& socket, const std::string& run) {
  NPU_TRY(const DaemonInfo daemon, query_info(socket));
  NPU_TRY(double ms, process_cpu_ms(std::to_string(daemon.pid)));
  for (const DeviceInfo& device : daemon.devices) {
    if (device.run != run) continue;
    NPU_TRY(const double rank_ms, process_cpu_ms(std::to_string(device.pid)));
    ms += rank_ms;
  }
  return ms;
}

/// Times of rank 0's steps; looks at the memory of all ranks while rank 0 still keeps them.
class StepWatch final : public EventSink {
 public:
  StepWatch(const StepBenchOptions& options, const std::string& socket, const std::string& run)
      : options_(options), socket_(socket), run_(run) {}

  void on_event(const Event& event) override {
    const auto* step = std::get_if<StepEvent>(&event);
    const int64_t done = step == nullptr ? 0 : step->step;
    if (done == options_.warmup && (step != nullptr || std::holds_alternative<StartEvent>(event))) {
      cpu_begin_ = cpu_of_job(socket_, run_);
    }
    if (step == nullptr) return;
    if (done > options_.warmup) step_ms_.push_back(1e3 * (step->batch_s - step->data_s));
    if (done == options_.warmup + options_.steps) {
      cpu_end_ = cpu_of_job(socket_, run_);
      peak_ = peak_of_job(socket_, run_);
    }
  }

  [[nodiscard]] Result<StepBenchResult> result() {
    if (static_cast<int>(step_ms_.size()) != options_.steps) {
      return fail(Code::kInternal, "bench step: {} steps were timed; expected {}", step_ms_.size(),
                  options_.steps);
    }
    NPU_TRY(StepBenchResult result, summarise(options_, std::move(step_ms_)));
    NPU_TRY(result.peak_bytes, peak_);
    NPU_TRY(const double begin, cpu_begin_);
    NPU_TRY(const double end, cpu_end_);
    result.cpu_ms = (end - begin) / options_.steps;
    return result;
  }

 private:
  const StepBenchOptions& options_;
  const std::string& socket_;
  const std::string& run_;
  std::vector<double> step_ms_;
  Result<double> cpu_begin_ = 0.0, cpu_end_ = 0.0;
  Result<uint64_t> peak_ = fail(Code::kInternal, "bench step: no memory was looked at");
};

}  // namespace

Result<StepBenchResult> run_step_bench_ranks(const StepBenchOptions& o, const std::string& socket) {
  const config::Job job = bench_job(o);
  StepWatch watch(o, socket, job.name);
  NPU_TRY_VOID(run_job_ranks(job, socket, o.threads, "npu bench step", watch));
  NPU_TRY(StepBenchResult result, watch.result());
  // Planned again, after the look at the memory: the trainer keeps its network to itself.
  NPU_TRY(const model::Network network, model::Network::plan(network_config(o)));
  result.activation_bytes = network.memory().activations;
  return result;
}

}  // namespace npu::client
