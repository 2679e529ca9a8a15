#include "client/launch/stop_signals.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

namespace npu::client {

Result<StopSignals> StopSignals::make() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t set, before;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    // Ignored on purpose by whoever started us (nohup, a background job of sh): it stays ignored.
    struct sigaction current {};
    ::sigaction(number, nullptr, &current);
    if (current.sa_handler != SIG_IGN) ::sigaddset(&set, number);
  }
  if (::sigprocmask(SIG_BLOCK, &set, &before) != 0) return fail_errno("block signals");
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("create a signalfd");
  return StopSignals(std::move(fd), before);
}

StopSignals::StopSignals(StopSignals&& other) noexcept
    : fd_(std::move(other.fd_)), before_(other.before_) {}

StopSignals::~StopSignals() {
  if (!fd_.valid()) return;
  while (next()) {
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

StopSignal StopSignals::next() noexcept {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return {};
  return {.number = static_cast<int>(info.ssi_signo), .pid = info.ssi_pid, .uid = info.ssi_uid};
}

std::string StopSignal::text() const {
  const std::string name = fmt::format("SIG{}", ::sigabbrev_np(number));
  return pid == 0 ? name : fmt::format("{} from pid {}, uid {}", name, pid, uid);
}

}  // namespace npu::client
