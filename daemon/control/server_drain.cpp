// Signals: the configuration read again, and the end of the daemon in order.
#include <signal.h>

#include <algorithm>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"

namespace npu::daemon {
namespace {

/// After the drain's time: for telling the members of runs that had to be ended.
constexpr auto kLastWords = std::chrono::seconds(5);
constexpr const char* kDraining = "the daemon is shutting down (DRAINING)";

bool ended(const Run& run) noexcept { return run.state == shm::RunState::kAborted; }

}  // namespace

void Server::Impl::on_signal(uint32_t number, int64_t pid, int64_t uid) {
  log_event(Level::kInfo, "ctl", number == SIGHUP ? "asked to read its settings" : "asked to stop",
            {{"signal", number}, {"pid", pid}, {"uid", uid}});
  if (number == SIGHUP) {
    on_reload_signal();
  } else {
    on_stop_signal();
  }
}

void Server::Impl::on_reload_signal() {
  std::shared_ptr<const Quotas> quotas;
  const auto config = service_.reload(scene(), [&](const config::DaemonConfig& read) -> Result<void> {
    NPU_TRY(quotas, Quotas::make(read.quotas));
    return {};
  });
  if (!options.service.config_path.empty()) counters_.config_ok = config.has_value();
  if (!config) return;
  use_quotas(std::move(quotas));
  counters_.config_unix = unix_seconds();
  options.ascend_metrics = config->metrics_compat == config::MetricsCompat::kAscend;
  options.drain_timeout = config->service.drain_timeout;  // of the next drain
}

void Server::Impl::on_stop_signal() {
  if (draining_) {
    drain_deadline_ = Clock::now();  // asked twice: no more waiting for ranks
    return;
  }
  const bool busy = !std::ranges::all_of(table_.runs(), [](const auto& run) { return ended(*run); });
  if (!options.launcher_only || leaving_ || !busy) return begin_drain();
  leaving_ = true;
  log_event(Level::kInfo, "ctl", "waiting for runs to end", {{"runs", table_.runs().size()}});
}

void Server::Impl::begin_drain() {
  if (draining_) return;
  draining_ = true;
  drain_deadline_ = Clock::now() + options.drain_timeout;
  log_event(Level::kInfo, "ctl", "shutting down", {{"runs", table_.runs().size()}});
  service_.draining(scene());
  loop_.remove(listener_.get());
  dismiss_queue();
  for (const auto& run : table_.runs()) {
    if (run->state == shm::RunState::kRunning) {
      engine_->drain_run(run->id, Code::kUnavailable, kDraining);
    } else if (!ended(*run)) {
      abort_run(*run, Code::kUnavailable, -1, kDraining);
    }
  }
}

void Server::Impl::hurry_drain() {
  if (hurried_) return;
  hurried_ = true;
  for (const auto& run : table_.runs()) {
    if (ended(*run)) continue;
    log_event(Level::kWarn, "ctl", "collectives in flight took longer than the drain",
              {{"run", run->name}, {"generation", run->id}, {"uid", run->uid}});
    abort_run(*run, Code::kUnavailable, -1, kDraining);
  }
}

bool Server::Impl::drained() const {
  // A checkpoint may take as long as the disk needs; systemd is asked for the time (Service).
  if (checkpoints_->pending() != 0) return false;
  if (hurried_ && Clock::now() >= drain_deadline_ + kLastWords) return true;
  for (const auto& [id, session] : sessions_) {
    if (!session->outgoing.empty()) return false;
  }
  // The members of a run whose error is not known yet have not been told.
  return std::ranges::none_of(table_.runs(), [](const auto& run) { return run->last_error.empty(); });
}

Scene Server::Impl::scene() const {
  Scene now;
  for (const auto& run : table_.runs()) now.runs += ended(*run) ? 0 : 1;
  for (const Lease& lease : table_.leases()) now.devices_busy += lease.run != nullptr ? 1 : 0;
  now.devices = options.devices;
  now.disk_tasks = checkpoints_ != nullptr ? checkpoints_->pending() : 0;
  now.draining = draining_;
  return now;
}

}  // namespace npu::daemon
