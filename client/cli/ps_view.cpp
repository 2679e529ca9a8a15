#include "client/cli/ps_view.hpp"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "shm/base/dtype.hpp"
#include "shm/base/rank_list.hpp"
#include "shm/base/units.hpp"
#include "shm/trace_summary.hpp"

namespace npu::cli {
namespace {

using Json = nlohmann::ordered_json;
using shm::TraceRecord;
using shm::TraceState;
using shm::TraceSummary;

/// What every rank has done.
uint64_t steps_of(const client::RunInfo& run) {
  const auto least = std::ranges::min_element(run.ranks, {}, &client::RunRank::steps);
  return least == run.ranks.end() ? 0 : least->steps;
}

std::string pids_of(const client::RunInfo& run) {
  std::string text;
  for (const client::RunRank& rank : run.ranks) {
    if (rank.pid == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ",", rank.pid);
  }
  return text.empty() ? "-" : text;
}

std::string devices_of(const client::RunInfo& run) {
  uint32_t mask = 0;
  for (const client::RunRank& rank : run.ranks) {
    const bool came = rank.pid != 0 || run.state != "forming";
    if (came && rank.device >= 0 && rank.device < 32) mask |= 1u << rank.device;
  }
  return mask == 0 ? "-" : rank_list(mask);
}

/// The number where the host knows no name for it.
std::string user_name(int64_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> memory;
  const int err =
      ::getpwuid_r(static_cast<uid_t>(uid), &entry, memory.data(), memory.size(), &found);
  return err == 0 && found != nullptr ? found->pw_name : fmt::format("{}", uid);
}

std::optional<int64_t> seconds_of(const client::RunInfo& run, int64_t now_unix) {
  if (run.started_unix <= 0) return std::nullopt;
  const int64_t end = run.ended_unix > 0 ? run.ended_unix : now_unix;
  return std::max<int64_t>(end - run.started_unix, 0);
}

/// As Slurm writes it: 1-02:03:04, 2:03:04, 3:04.
std::string elapsed(const std::optional<int64_t>& seconds) {
  if (!seconds) return "NA";
  const int64_t s = *seconds, days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, s % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, s % 60);
  return fmt::format("{}:{:02}", minutes, s % 60);
}

Json known_or_null(int64_t unix_time) { return unix_time > 0 ? Json(unix_time) : Json(nullptr); }

std::string duration(const std::optional<uint64_t>& ns) {
  if (!ns) return "NA";
  const auto value = static_cast<double>(*ns);
  if (value < 1e6) return fmt::format("{:.1f} us", value / 1e3);
  if (value < 1e9) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string_view dtype_of(const TraceRecord& r) {
  return r.dtype == shm::kTraceNone ? "-" : dtype_name(static_cast<DType>(r.dtype));
}

std::string_view reduce_op_of(const TraceRecord& r) {
  return r.reduce_op == shm::kTraceNone ? "-" : reduce_op_name(static_cast<ReduceOp>(r.reduce_op));
}

std::string state_of(const TraceRecord& r, const TraceSummary& s) {
  const auto state = static_cast<TraceState>(r.state);
  std::string text(shm::trace_state_name(state));
  const std::string missing = rank_list(r.members & ~s.arrived);
  if (state == TraceState::kFailed) {
    text += fmt::format(": {}", code_name(static_cast<Code>(r.code)));
    if (r.culprit >= 0) text += fmt::format(", rank {}", r.culprit);
  }
  if (state != TraceState::kDone && !missing.empty()) text += ", missing: " + missing;
  return text;
}

std::string record_line(const TraceRecord& r, uint64_t now_ns) {
  const TraceSummary s = shm::summarize(r, now_ns);
  return fmt::format(
      "{:>9} {:>4} {:<14} {:<6} {:<9} {:>11} {:>10} {:<6} {:>7} {:>4} {:>10} {:>10}  {}\n",
      r.sequence, r.communicator, shm::op_name(static_cast<shm::Op>(r.op)), dtype_of(r),
      reduce_op_of(r), r.count, format_bytes(r.bytes),
      shm::algorithm_name(static_cast<shm::Algorithm>(r.algorithm)),
      fmt::format("{}/{}", std::popcount(s.arrived), std::popcount(r.members)),
      s.straggler ? fmt::format("{}", *s.straggler) : "-", duration(s.wait_ns), duration(s.run_ns),
      state_of(r, s));
}

Json run_json(const client::RunInfo& run, int64_t now_unix) {
  Json ranks = Json::array();
  for (const client::RunRank& rank : run.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"device", rank.device},
                     {"pid", rank.pid != 0 ? Json(rank.pid) : Json(nullptr)},
                     {"steps", rank.steps}});
  }
  const auto seconds = seconds_of(run, now_unix);
  return {{"name", run.name},
          {"generation", run.generation},
          {"uid", run.uid},
          {"user", user_name(run.uid)},
          {"state", run.state},
          {"world", run.world},
          {"joined", run.joined},
          {"steps", steps_of(run)},
          {"started", known_or_null(run.started_unix)},
          {"ended", known_or_null(run.ended_unix)},
          {"seconds", seconds ? Json(*seconds) : Json(nullptr)},
          {"collectives", run.collectives},
          {"last_error", run.last_error},
          {"launcher", run.launcher != 0 ? Json(run.launcher) : Json(nullptr)},
          {"place", run.place != 0 ? Json(run.place) : Json(nullptr)},
          {"ranks", std::move(ranks)}};
}

constexpr const char* kRunRow = "{:<{}}  {:>4}  {:<8}  {:<7}  {:<7}  {:>5}  {:>8}  {:>10}  {}\n";

}  // namespace

std::string runs_table(const std::vector<client::RunInfo>& runs, int64_t now_unix) {
  if (runs.empty()) return "no run\n";
  size_t width = 3;
  for (const auto& run : runs) width = std::max(width, run.name.size());
  std::string text = fmt::format(fmt::runtime(kRunRow), "RUN", width, "GEN", "USER", "STATE",
                                 "DEVICES", "RANKS", "STEP", "TIME", "PIDS");
  for (const auto& run : runs) {
    text += fmt::format(fmt::runtime(kRunRow), run.name, width, run.generation, user_name(run.uid),
                        run.state, devices_of(run), fmt::format("{}/{}", run.joined, run.world),
                        steps_of(run), elapsed(seconds_of(run, now_unix)), pids_of(run));
  }
  for (const auto& run : runs) {
    if (run.last_error.empty()) continue;
    if (run.state == "pending") {
      const std::string place =
          run.place != 0 ? fmt::format(", place {} in the line", run.place) : "";
      text += fmt::format("run '{}' waits (pid {}){}; {}\n", run.name, run.launcher, place,
                          run.last_error);
      continue;
    }
    text += fmt::format("run '{}' generation {}: {}\n", run.name, run.generation, run.last_error);
  }
  return text;
}

std::string runs_json(const std::vector<client::RunInfo>& runs, int64_t now_unix) {
  Json list = Json::array();
  for (const auto& run : runs) list.push_back(run_json(run, now_unix));
  const Json out = {{"schema", 1}, {"runs", std::move(list)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string trace_table(const client::Trace& trace, uint64_t now_ns) {
  const shm::TraceSnapshot& snapshot = trace.snapshot;
  std::string text = fmt::format(
      "run '{}' generation {}: {}, {} ranks, {} collectives recorded, {} shown\n", trace.run,
      trace.generation, trace.state, trace.world, snapshot.opened, snapshot.records.size());
  if (!trace.last_error.empty()) text += trace.last_error + '\n';
  if (const uint64_t skipped = snapshot.torn + snapshot.bad; skipped != 0) {
    text += fmt::format("{} records could not be read\n", skipped);
  }
  if (snapshot.records.empty()) return text;
  text += fmt::format(
      "{:>9} {:>4} {:<14} {:<6} {:<9} {:>11} {:>10} {:<6} {:>7} {:>4} {:>10} {:>10}  {}\n", "SEQ",
      "COMM", "OP", "TYPE", "REDOP", "COUNT", "BYTES", "ALGO", "ARRIVED", "LATE", "WAIT", "RUN",
      "STATE");
  for (const TraceRecord& record : snapshot.records) text += record_line(record, now_ns);
  return text;
}

}  // namespace npu::cli
