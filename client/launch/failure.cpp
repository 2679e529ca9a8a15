#include "client/launch/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <vector>

#include "client/launch/fault_code.hpp"
#include "client/launch/rank_env.hpp"
#include "client/render/text_format.hpp"

namespace npu::client {
namespace {

constexpr int code(Exit exit) noexcept { return static_cast<int>(exit); }

// Ranks that say the same thing share a line of the report.
struct Group {
  std::string text;
  std::vector<int> ranks;
  Clock::time_point last;
};

std::string outcome(const RankEnd& end, const RankEnd& first) {
  if (end.ended_by_us && (end.status.by_signal || !end.error)) return "ended by the launcher";
  if (end.status.ok()) return "ended normally";
  std::string text = describe(end.status);
  if (!end.status.by_signal && end.status.value == code(Exit::kPeerFailed))
    text += " (peer failed)";
  if (!end.error) return text;
  const bool repeated = first.error && first.error->message == end.error->message;
  return text + ": " + (repeated ? "the same error" : end.error->message);
}

std::vector<Group> groups_of_others(std::span<const RankEnd> ends, size_t culprit) {
  std::vector<Group> groups;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i == culprit) continue;
    const std::string text = outcome(ends[i], ends[culprit]);
    auto found = std::ranges::find(groups, text, &Group::text);
    if (found == groups.end()) found = groups.insert(found, {text, {}, ends[i].ended_at});
    found->ranks.push_back(ends[i].rank);
    found->last = std::max(found->last, ends[i].ended_at);
  }
  return groups;
}

}  // namespace

bool is_consequence(const RankEnd& end) noexcept {
  return !end.status.by_signal &&
         (end.status.value == code(Exit::kPeerFailed) || end.status.value == code(Exit::kNoDaemon));
}

bool stopped_as_asked(const RankEnd& end) noexcept {
  return !end.status.by_signal && end.status.value == kExitStopped;
}

std::optional<size_t> pick_culprit(std::span<const RankEnd> ends) {
  std::optional<size_t> best;
  const auto order = [&](size_t i) {
    return std::tuple(stopped_as_asked(ends[i]), ends[i].ended_by_us, is_consequence(ends[i]),
                      !ends[i].status.by_signal && !ends[i].error, ends[i].ended_at);
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i].status.ok() && (!best || order(i) < order(*best))) best = i;
  }
  return best;
}

std::string format_failure(std::span<const RankEnd> ends, const Failure& failure) {
  const RankEnd& first = ends[failure.culprit];
  std::string text = fmt::format("rank {} failed first: {}, pid {}, device {}, {}, {}", first.rank,
                                 describe(first.status), first.pid, first.device, failure.doing,
                                 failure.wall_time);
  if (first.error) text += "\n  error: " + first.error->message;
  if (!first.last_log.empty()) text += "\n  last log: " + first.last_log;
  for (const Group& group : groups_of_others(ends, failure.culprit)) {
    const std::chrono::duration<double> after = group.last - first.ended_at;
    text += fmt::format("\n  {} {}: {} after {:.1f} s", group.ranks.size() == 1 ? "rank" : "ranks",
                        format_ids(group.ranks), group.text, std::max(after.count(), 0.0));
  }
  const ErrorEvent event = failure_event(ends, failure);
  const std::string fault = fault_line(event.code, event.exit_code, event.message, first.rank);
  if (!fault.empty()) text += "\n  " + fault;
  return text;
}

std::string failure_reason(std::span<const RankEnd> ends, const Failure& failure) {
  const RankEnd& first = ends[failure.culprit];
  std::string text = fmt::format("rank {} (pid {}) {}, {}", first.rank, first.pid,
                                 describe(first.status), failure.doing);
  if (first.error) text += ": " + first.error->message;
  return text;
}

ErrorEvent failure_event(std::span<const RankEnd> ends, const Failure& failure) {
  const RankEnd& first = ends[failure.culprit];
  ErrorEvent event = first.error.value_or(ErrorEvent{});
  if (!first.error) {
    // Killed or silent: its exit is all there is to say.
    event.code = code_name(first.status.by_signal ? Code::kAborted : Code::kInternal);
    event.message = fmt::format("rank {} failed first: {}, device {}, {}", first.rank,
                                describe(first.status), first.device, failure.doing);
  }
  event.rank = first.rank;
  event.pid = first.pid;
  event.exit_code = first.status.code();
  if (const FaultCode* fault = fault_code(event.code, event.exit_code, event.message)) {
    event.fault = fault->code;
  }
  return event;
}

}  // namespace npu::client
