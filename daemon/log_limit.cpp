#include "daemon/log_limit.hpp"

#include <algorithm>

namespace npu::daemon {

void LogLimit::refill(Kind& kind, Clock::time_point now) noexcept {
  const std::chrono::duration<double> passed = now - kind.filled;
  kind.tokens = std::min(kLineBurst, kind.tokens + passed.count() * kLinesPerSecond);
  kind.filled = now;
}

std::optional<uint64_t> LogLimit::admit(std::string_view name, Clock::time_point now) {
  auto found = kinds_.find(name);
  if (found == kinds_.end()) {
    found = kinds_.emplace(std::string(name), Kind{.filled = now}).first;
  }
  Kind& kind = found->second;
  refill(kind, now);
  if (kind.tokens < 1) {
    ++kind.left_out;
    return std::nullopt;
  }
  kind.tokens -= 1;
  return std::exchange(kind.left_out, 0);
}

std::vector<std::pair<std::string, uint64_t>> LogLimit::over(Clock::time_point now) {
  std::vector<std::pair<std::string, uint64_t>> found;
  for (auto& [name, kind] : kinds_) {
    if (kind.left_out == 0) continue;
    refill(kind, now);
    if (kind.tokens >= 1) found.emplace_back(name, std::exchange(kind.left_out, 0));
  }
  return found;
}

}  // namespace npu::daemon
