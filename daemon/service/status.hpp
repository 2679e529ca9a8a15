// The one line that `systemctl status` shows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/service/scene.hpp"
#include "shm/base/clock.hpp"

namespace npu::daemon {

/// "serving 2 runs on 5 of 8 devices"; `trouble`, if there is any, follows after a semicolon.
[[nodiscard]] std::string status_text(const Scene& scene, std::string_view trouble);

/// Says when the line is to be sent: at a change, at most once a second. The last change is always sent
/// in the end, because it is asked once a round.
class StatusLine {
 public:
  static constexpr milliseconds kApart{1000};

  /// The text, if it is to be sent now; it then counts as sent.
  [[nodiscard]] std::optional<std::string> due(std::string text, Clock::time_point now);

 private:
  std::string sent_;
  std::optional<Clock::time_point> sent_at_;
};

}  // namespace npu::daemon
