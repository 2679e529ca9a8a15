#include "client/cli/alternate_screen.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "client/render/full_screen.hpp"

namespace npu::cli {
namespace {

// For signal handlers: nothing else reaches them.
std::atomic<bool> taken{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void give(std::string_view bytes) noexcept {
  // A terminal that is gone needs nothing.
  (void)!::write(STDOUT_FILENO, bytes.data(), bytes.size());
}

void on_interrupt(int) {
  if (taken.load(std::memory_order_relaxed)) give(client::kFullScreenLeave);
  ::_exit(0);
}

void on_end(int number) {
  if (taken.exchange(false, std::memory_order_relaxed)) give(client::kFullScreenLeave);
  std::signal(number, SIG_DFL);
  std::raise(number);  // blocked while its handler runs, so it strikes on return
}

void on_suspend(int) {
  const bool was = taken.load(std::memory_order_relaxed);
  if (was) give(client::kFullScreenLeave);
  ::kill(::getpid(), SIGSTOP);  // goes on here after SIGCONT
  if (was) give(client::kFullScreenEnter);
}

void handle(int number, void (*handler)(int)) noexcept {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  // Ignored on purpose by whoever started us: it stays ignored.
  if (action.sa_handler == SIG_IGN && number != SIGINT) return;
  action = {};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

AlternateScreen::AlternateScreen(bool take) noexcept {
  handle(SIGINT, on_interrupt);
  if (!take) return;
  give(client::kFullScreenEnter);
  taken.store(true, std::memory_order_relaxed);
  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) handle(number, on_end);
  handle(SIGTSTP, on_suspend);
}

AlternateScreen::~AlternateScreen() {
  if (taken.exchange(false, std::memory_order_relaxed)) give(client::kFullScreenLeave);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) handle(number, SIG_DFL);
}

}  // namespace npu::cli
