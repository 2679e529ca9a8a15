#include "daemon/metrics/collect.hpp"

#include <fmt/format.h>

#include "daemon/metrics/log_counter.hpp"
#include "shm/layout_data.hpp"

namespace npu::daemon {

std::string metrics_text(const MetricsView& view) {
  Exposition out;
  collect_process(view, out);
  collect_control(view, out);
  collect_devices(view, out);
  collect_collectives(view, out);
  collect_runs(view, out);
  collect_checkpoints(view, out);
  if (view.ascend) collect_ascend(view, out);
  return out.text();
}

void collect_process(const MetricsView& view, Exposition& out) {
  out.gauge("npud_build_info", "1; what runs")
      .add({{"version", view.version},
            {"compiler", "g++ " __VERSION__},
            {"abi", fmt::format("{:016x}", shm::layout_hash())}},
           1);
  out.gauge("npud_start_time_seconds", "When the daemon started, Unix time").add({}, view.start_unix);
  const ProcessStats& p = view.process;
  out.gauge("process_start_time_seconds", "When the process started, Unix time").add({}, view.start_unix);
  out.counter("process_cpu_seconds_total", "Processor time, user and system").add({}, p.cpu_seconds);
  out.gauge("process_resident_memory_bytes", "Memory of the process in RAM; arenas in use included")
      .add({}, static_cast<double>(p.resident_bytes));
  out.gauge("process_virtual_memory_bytes", "Address space of the process")
      .add({}, static_cast<double>(p.virtual_bytes));
  out.gauge("process_threads", "Threads of the process").add({}, static_cast<double>(p.threads));
  out.gauge("process_open_fds", "Open descriptors").add({}, static_cast<double>(p.open_fds));
  out.gauge("process_max_fds", "Limit of open descriptors").add({}, static_cast<double>(p.max_fds));
}

void collect_control(const MetricsView& view, Exposition& out) {
  out.gauge("npud_config_reload_success", "1 if the configuration file was good when it was last read")
      .add({}, view.control->config_ok ? 1 : 0);
  out.gauge("npud_config_last_reload_success_timestamp_seconds", "When a good configuration was last read, Unix time")
      .add({}, view.control->config_unix);
  auto requests = out.counter("npud_control_requests_total", "Requests over the control socket by outcome");
  auto durations = out.histogram("npud_control_request_duration_seconds", "From a request to its answer");
  const RequestMeter& meter = view.control->requests;
  for (size_t m = 0; m < kMethods; ++m) {
    const auto method = static_cast<Method>(m);
    bool any = false;
    for (size_t outcome = 0; outcome < kOutcomes; ++outcome) {
      const uint64_t count = meter.count(method, outcome);
      if (count == 0) continue;
      any = true;
      requests.add({{"method", method_name(method)}, {"code", outcome_name(outcome)}}, static_cast<double>(count));
    }
    if (any) durations.add({{"method", method_name(method)}}, meter.duration(method));
  }
  auto messages = out.counter("npud_log_messages_total", "Log messages by level");
  const auto add_level = [&messages](const char* name, spdlog::level::level_enum level) {
    messages.add({{"level", name}}, static_cast<double>(logged_messages(level)));
  };
  add_level("debug", spdlog::level::debug);
  add_level("info", spdlog::level::info);
  add_level("warn", spdlog::level::warn);
  add_level("error", spdlog::level::err);
  out.counter("npud_log_dropped_total", "Log messages that were pushed out of the queue before they were written")
      .add({}, static_cast<double>(dropped_messages()));
}

}  // namespace npu::daemon
