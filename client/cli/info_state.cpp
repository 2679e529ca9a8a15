#include "client/cli/info_state.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "client/cli/command.hpp"
#include "shm/format/printable.hpp"
#include "shm/trace_summary.hpp"

namespace npu::cli {
namespace {

constexpr uint64_t kRecentRecords = 64;  // more operations than a run has open at a time

/// For how long the others of a run have waited for one of its ranks, and where.
struct Wait {
  uint64_t ns = 0;
  uint64_t sequence = 0;
  shm::Op op{};
};

/// By rank; nothing when the recorder cannot be read: a run may end while one looks at it.
std::map<int, Wait> waits_of(const std::string& socket, const client::RunInfo& run) {
  std::map<int, Wait> waits;
  const auto trace = client::read_run_trace(socket, run.name, kRecentRecords);
  if (!trace || trace->generation != run.generation) return waits;
  for (const shm::TraceRecord& record : trace->snapshot.records) {
    if (static_cast<shm::TraceState>(record.state) != shm::TraceState::kWaiting) continue;
    const shm::TraceSummary summary = shm::summarize(record, now_ns());
    if (!summary.wait_ns) continue;
    for (int rank = 0; rank < run.world; ++rank) {
      const bool missing = ((record.members & ~summary.arrived) >> rank & 1) != 0;
      Wait& wait = waits[rank];
      if (missing && *summary.wait_ns > wait.ns) {
        wait = {*summary.wait_ns, record.sequence, static_cast<shm::Op>(record.op)};
      }
    }
  }
  return waits;
}

std::string stall_warning(const client::DeviceInfo& d, const Wait& wait) {
  return fmt::format(
      "device {}: rank {} (pid {}) has not come to {} seq {} of run '{}' for {:.1f} s, the others "
      "wait; see `npu logs {} --rank {}`",
      d.id, d.rank, d.pid, shm::op_name(wait.op), wait.sequence, d.run,
      static_cast<double>(wait.ns) * 1e-9, d.run, d.rank);
}

}  // namespace

Result<void> InfoProbe::keep_wanted(client::DaemonInfo& info) const {
  if (only_.empty()) return {};
  for (const int id : only_) {
    if (std::ranges::find(info.devices, id, &client::DeviceInfo::id) == info.devices.end()) {
      return fail(Code::kNotFound, "device {}: the daemon at '{}' has devices 0 to {}", id,
                  info.socket, static_cast<int>(info.devices.size()) - 1);
    }
  }
  std::erase_if(info.devices,
                [&](const auto& d) { return std::ranges::find(only_, d.id) == only_.end(); });
  std::erase_if(info.runs, [&](const client::RunInfo& run) {
    return std::ranges::none_of(
        info.devices, [&](const auto& d) { return d.run == run.name && d.uid == run.uid; });
  });
  return {};
}

/// Nothing the first time.
std::optional<double> InfoProbe::percent(int64_t pid, const client::ProcessStat& stat,
                                         std::map<int64_t, Sample>& now) const {
  const Sample sample{stat.started_ticks, stat.cpu_ticks, Clock::now()};
  now[pid] = sample;
  const auto before = samples_.find(pid);
  if (before == samples_.end() || before->second.started_ticks != sample.started_ticks ||
      sample.cpu_ticks < before->second.cpu_ticks) {
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(sample.at - before->second.at).count();
  const auto ticks = static_cast<double>(sample.cpu_ticks - before->second.cpu_ticks);
  if (seconds <= 0) return std::nullopt;
  return 100 * ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)) / seconds;
}

Result<InfoState> InfoProbe::look() {
  NPU_TRY(const std::string socket, daemon_to_ask(named_));
  NPU_TRY(client::DaemonInfo info, client::query_info(socket));
  NPU_TRY_VOID(keep_wanted(info));
  InfoState state;
  std::map<std::pair<int64_t, std::string>, std::map<int, Wait>> waits;
  for (const client::RunInfo& run : info.runs) {
    if (run.state == "running") waits[{run.uid, run.name}] = waits_of(socket, run);
    if (run.failed_checkpoints > 0) {
      state.warnings.push_back(
          fmt::format("run '{}': its last {} checkpoint(s) could not be written; its own log and "
                      "npud's say why",
                      run.name, run.failed_checkpoints));
    }
  }
  std::map<int64_t, Sample> now;
  for (const client::DeviceInfo& d : info.devices) {
    DeviceState& out = state.devices.emplace_back(DeviceState{.device = d});
    if (d.pid <= 0) continue;
    if (const auto stat = client::process_stat(static_cast<pid_t>(d.pid))) {
      out.process = printable(stat->name, 15);
      out.process_percent = percent(d.pid, *stat, now);
    }
    const auto run = waits.find({d.uid, d.run});
    if (run == waits.end()) continue;
    const Wait wait = run->second[d.rank];
    out.wait_s = static_cast<double>(wait.ns) * 1e-9;
    out.stalled = nanoseconds(wait.ns) >= kStallAfter;
    if (out.stalled) state.warnings.push_back(stall_warning(d, wait));
  }
  samples_ = std::move(now);
  state.daemon = std::move(info);
  return state;
}

}  // namespace npu::cli
