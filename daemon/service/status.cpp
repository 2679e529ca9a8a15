#include "daemon/service/status.hpp"

#include <fmt/core.h>

namespace npu::daemon {
namespace {

std::string counted(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string phase(const Scene& scene) {
  if (scene.draining) {
    return fmt::format("draining: {} to end, {} to finish", counted(scene.runs, "run"),
                       counted(scene.disk_tasks, "disk task"));
  }
  if (scene.runs == 0) return fmt::format("idle, {}", counted(scene.devices, "device"));
  return fmt::format("serving {} on {} of {}", counted(scene.runs, "run"), scene.devices_busy,
                     counted(scene.devices, "device"));
}

}  // namespace

std::string status_text(const Scene& scene, std::string_view trouble) {
  std::string text = phase(scene);
  if (!trouble.empty()) text.append("; ").append(trouble);
  return text;
}

std::optional<std::string> StatusLine::due(std::string text, Clock::time_point now) {
  if (text == sent_ || (sent_at_ && now - *sent_at_ < kApart)) return std::nullopt;
  sent_ = std::move(text);
  sent_at_ = now;
  return sent_;
}

}  // namespace npu::daemon
