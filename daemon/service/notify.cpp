#include "daemon/service/notify.hpp"

#include <fmt/core.h>
#include <systemd/sd-daemon.h>

#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

constexpr size_t kMaxStatus = 512;

}  // namespace

void Notifier::send(const std::string& lines) const noexcept {
  (void)::sd_notify(0, lines.c_str());  // nobody to tell it to when that fails
}

std::string Notifier::status_line(std::string_view text) {
  return "STATUS=" + printable(text, kMaxStatus) + "\n";
}

std::string Notifier::more_time(milliseconds time) {
  return fmt::format("EXTEND_TIMEOUT_USEC={}\n",
                     std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

std::string Notifier::reloading() {
  // The time is for Type=notify-reload of systemd 253 and newer; older ones do not know it.
  return fmt::format("RELOADING=1\nMONOTONIC_USEC={}\n", now_ns() / 1000);
}

std::optional<std::chrono::microseconds> watchdog_interval() noexcept {
  uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) <= 0 || usec == 0) return std::nullopt;
  return std::chrono::microseconds(usec);
}

}  // namespace npu::daemon
