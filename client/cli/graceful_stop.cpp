#include "client/cli/graceful_stop.hpp"

#include <csignal>

namespace npu::cli {
namespace {

std::atomic<int> received{0};
std::atomic<bool> asked{false};  // by somebody other than the launcher
std::atomic<pid_t> launcher_pid{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int number, siginfo_t* info, void* /*context*/) {
  int none = 0;
  received.compare_exchange_strong(none, number, std::memory_order_relaxed);
  const pid_t launcher = launcher_pid.load(std::memory_order_relaxed);
  if (launcher != 0 && info->si_pid == launcher) return;
  if (!asked.exchange(true, std::memory_order_relaxed)) return;
  // Asked twice: no more patience. Blocked while its handler runs, so it strikes on return.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

const std::atomic<int>& stop_signal() noexcept { return received; }

void stop_gracefully(pid_t launcher) noexcept {
  launcher_pid.store(launcher, std::memory_order_relaxed);
  for (const int number : {SIGTERM, SIGINT}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace npu::cli
