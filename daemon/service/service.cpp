#include "daemon/service/service.hpp"

#include <algorithm>

#include "daemon/log.hpp"
#include "daemon/service/reload.hpp"

namespace npu::daemon {
namespace {

using std::chrono::seconds;

/// A checkpoint gets three times what lies between two requests, and all of them together no more
/// than a disk that still works needs.
constexpr auto kAskEvery = seconds(5);
constexpr auto kAskFor = seconds(15);
constexpr auto kAskAtMost = std::chrono::minutes(10);

}  // namespace

Service::Service(ServiceOptions options)
    : options_(std::move(options)), present_(options_.config) {}

void Service::ready(const Scene& scene, std::span<const Pulse* const> pulses) {
  const auto now = Clock::now();
  if (const auto limit = watchdog_interval()) watchdog_.emplace(*limit, pulses, now);
  notifier_.send("READY=1\n" + Notifier::status_line(status_text(scene, {})));
}

void Service::look_after(const Scene& scene) {
  const auto now = Clock::now();
  look_at_watchdog(now);
  if (scene.draining) ask_for_time(scene, now);
  if (const auto text = status_.due(status_text(scene, trouble()), now)) {
    notifier_.send(Notifier::status_line(*text));
  }
  if (now - counted_at_ >= seconds(1)) {
    counted_at_ = now;
    log_suppressed();
  }
}

void Service::look_at_watchdog(Clock::time_point now) {
  if (!watchdog_ || now < watchdog_->next()) return;
  Watchdog::Verdict verdict = watchdog_->look(now);
  if (verdict.pet) notifier_.send("WATCHDOG=1\n");
  if (verdict.stuck == stuck_) return;
  if (verdict.stuck.empty()) {
    log_event(Level::kWarn, "ctl", "engine threads get on again", {{"threads", stuck_}});
  } else {
    log_event(Level::kError, "ctl", "engine threads do not get on; the watchdog is not petted",
              {{"threads", verdict.stuck}});
  }
  stuck_ = std::move(verdict.stuck);
}

void Service::ask_for_time(const Scene& scene, Clock::time_point now) {
  if (!drain_began_) drain_began_ = now;
  if (scene.disk_tasks == 0 || now - *drain_began_ > kAskAtMost) return;
  if (asked_at_ && now - *asked_at_ < kAskEvery) return;
  asked_at_ = now;
  notifier_.send(Notifier::more_time(kAskFor));
}

milliseconds Service::patience(milliseconds most) const {
  if (!watchdog_) return most;
  // Rounded up: a millisecond too late costs nothing, a round too early is one for nothing.
  const auto left = std::chrono::ceil<milliseconds>(watchdog_->next() - Clock::now());
  return std::clamp(left, milliseconds(0), most);
}

std::optional<config::DaemonConfig> Service::reload(const Scene& scene,
                                                    const AcceptConfig& accept) {
  if (options_.config_path.empty()) {
    log_event(Level::kWarn, "ctl", "nothing to reload: npud was started without --config");
    return std::nullopt;
  }
  notifier_.send(Notifier::reloading());
  auto again = read_again(options_.config_path, options_.config, present_);
  if (again) {
    if (auto good = accept(again->config); !good) {
      again = tl::make_unexpected(std::move(good.error()));
    }
  }
  if (again) {
    present_ = again->config;
    if (!options_.levels_fixed) set_log_levels(present_.log_level);
    reload_trouble_ =
        again->needs_restart.empty() ? "" : "needs a restart: " + again->needs_restart;
    log_event(Level::kInfo, "ctl", "configuration reloaded",
              {{"path", options_.config_path},
               {"changed", again->changed},
               {"needs_restart", again->needs_restart}});
  } else {
    const std::string reason = in_one_line(again.error().message);
    reload_trouble_ = "configuration not reloaded: " + reason;
    log_event(Level::kError, "ctl", "configuration not reloaded, the old one stays",
              {{"path", options_.config_path}, {"reason", reason}});
  }
  notifier_.send("READY=1\n" + Notifier::status_line(status_text(scene, trouble())));
  return again ? std::optional(present_) : std::nullopt;
}

void Service::draining(const Scene& scene) {
  notifier_.send("STOPPING=1\n" + Notifier::status_line(status_text(scene, trouble())));
}

std::string Service::trouble() const {
  std::string text = stuck_.empty() ? "" : "stuck: " + stuck_;
  if (!reload_trouble_.empty()) text += (text.empty() ? "" : "; ") + reload_trouble_;
  return text;
}

}  // namespace npu::daemon
