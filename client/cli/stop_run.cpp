#include "client/cli/stop_run.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "client/launch/process_stat.hpp"
#include "client/record/launcher_lock.hpp"

namespace npu::cli {
namespace {

using client::open_pidfd;
using client::pidfd_alive;
using client::process_stat;
using client::RunInfo;
using client::RunRank;

constexpr milliseconds kNoticeLimit{2000}, kNoticeProbe{2};

/// The words of its command line, at most the first `most`.
std::vector<std::string> words_of(pid_t pid, size_t most) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::vector<std::string> words;
  for (std::string word; words.size() < most && std::getline(file, word, '\0');) {
    words.push_back(std::move(word));
  }
  return words;
}

bool same_program(pid_t a, pid_t b) {
  struct stat first {
  }, second{};
  return ::stat(fmt::format("/proc/{}/exe", a).c_str(), &first) == 0 &&
         ::stat(fmt::format("/proc/{}/exe", b).c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/// A shell, a service manager or a notebook that started a rank is no launcher.
bool is_launcher(pid_t pid, pid_t rank) {
  constexpr std::string_view kCommands[] = {"launch", "eval", "bench"};
  if (!same_program(pid, rank)) return false;
  const auto words = words_of(pid, 6);  // the program, options of every command, the command
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::find(kCommands, word) != std::end(kCommands);
  });
}

/// The launcher of a rank that is known to be alive; nothing if somebody else started it.
std::optional<StopTarget> launcher_of_rank(const StopTarget& rank) {
  const auto stat = process_stat(rank.pid);
  if (!stat || stat->parent <= 1 || !is_launcher(stat->parent, rank.pid)) return std::nullopt;
  StopTarget launcher{stat->parent, open_pidfd(stat->parent), true};
  // Still its parent: so it has not ended since, and the descriptor means it.
  const auto again = process_stat(rank.pid);
  if (!launcher.pidfd.valid() || !again || again->parent != launcher.pid) return std::nullopt;
  if (!pidfd_alive(rank.pidfd.get())) return std::nullopt;
  return launcher;
}

/// What the daemon lists as the run's processes: its ranks, or the launcher that waits in line.
std::vector<int64_t> listed_pids(const RunInfo& run) {
  if (run.state == "pending") return {run.launcher};
  std::vector<int64_t> pids;
  for (const RunRank& rank : run.ranks) pids.push_back(rank.pid);
  return pids;
}

bool same_run(const RunInfo& a, const RunInfo& b) {
  return a.uid == b.uid && a.name == b.name && a.generation == b.generation &&
         (a.state == "pending") == (b.state == "pending");
}

Result<std::vector<StopTarget>> proven_processes(const std::string& socket, const RunInfo& run) {
  std::vector<StopTarget> opened;
  for (const int64_t number : listed_pids(run)) {
    const auto pid = static_cast<pid_t>(number);
    UniqueFd pidfd = open_pidfd(pid);
    if (pidfd.valid()) opened.push_back({pid, std::move(pidfd), run.state == "pending"});
  }
  NPU_TRY(const auto runs, client::list_runs(socket));
  std::vector<StopTarget> proven;
  for (const RunInfo& now : runs) {
    if (!same_run(now, run)) continue;
    const std::vector<int64_t> listed = listed_pids(now);
    for (StopTarget& target : opened) {
      const bool still = std::ranges::find(listed, int64_t{target.pid}) != listed.end();
      if (still && pidfd_alive(target.pidfd.get())) proven.push_back(std::move(target));
    }
    break;
  }
  return proven;
}

Result<void> send(const StopTarget& target, int number) {
  if (::syscall(SYS_pidfd_send_signal, target.pidfd.get(), number, nullptr, 0) == 0) return {};
  if (errno == ESRCH) return {};
  return fail_errno(fmt::format("signal pid {}", target.pid));
}

/// True while SIGTERM waits to be taken notice of.
bool term_pending(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("ShdPnd:")) continue;
    return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  }
  return false;
}

/// Two signals of one kind that wait are one: the second is sent once the first was taken.
Result<void> ask_twice(const StopTarget& launcher) {
  NPU_TRY_VOID(send(launcher, SIGTERM));
  NPU_TRY_VOID(send(launcher, SIGCONT));
  const Deadline limit = Deadline::after(kNoticeLimit);
  while (!limit.passed() && pidfd_alive(launcher.pidfd.get()) && term_pending(launcher.pid)) {
    ::poll(nullptr, 0, static_cast<int>(kNoticeProbe.count()));
  }
  return send(launcher, SIGTERM);
}

}  // namespace

Result<std::vector<StopTarget>> stop_targets(const std::string& socket, const RunInfo& run) {
  NPU_TRY(auto ranks, proven_processes(socket, run));
  if (ranks.empty()) {
    return fail(Code::kNotFound, "stop run '{}': it ended just now; nothing was stopped", run.name);
  }
  if (ranks.front().launcher) return ranks;
  for (const StopTarget& rank : ranks) {
    auto launcher = launcher_of_rank(rank);
    if (!launcher) continue;
    std::vector<StopTarget> only;
    only.push_back(std::move(*launcher));
    return only;
  }
  return ranks;
}

Result<std::optional<StopTarget>> stop_target_of_folder(const std::string& folder) {
  NPU_TRY(const auto pid, client::launcher_of(folder));
  if (!pid) return std::nullopt;
  StopTarget target{*pid, open_pidfd(*pid), true};
  // Held by the same process still: so the descriptor means it.
  NPU_TRY(const auto again, client::launcher_of(folder));
  if (!target.pidfd.valid() || again != pid) return std::nullopt;
  return target;
}

Result<void> signal_targets(const std::vector<StopTarget>& targets, bool now) {
  for (const StopTarget& target : targets) {
    if (now && target.launcher) {
      NPU_TRY_VOID(ask_twice(target));
      continue;
    }
    NPU_TRY_VOID(send(target, now ? SIGKILL : SIGTERM));
    if (!now) NPU_TRY_VOID(send(target, SIGCONT));  // a suspended process would wait
  }
  return {};
}

bool await_end(const std::vector<StopTarget>& targets, Deadline deadline) {
  for (const StopTarget& target : targets) {
    pollfd ended{target.pidfd.get(), POLLIN, 0};
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(deadline.remaining(std::chrono::hours(1)));
      if (::poll(&ended, 1, static_cast<int>(left.count())) == 1) break;
      if (deadline.passed()) return false;
    }
  }
  return true;
}

}  // namespace npu::cli
