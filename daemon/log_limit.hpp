// How many lines of one kind are written; the rest is counted, so that a broken client cannot fill the disk.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shm/base/clock.hpp"

namespace npu::daemon {

inline constexpr double kLinesPerSecond = 5;  // of one kind, on the average
inline constexpr double kLineBurst = 20;

/// Kinds are literals of the program, so their number is bounded. Thread: one at a time.
class LogLimit {
 public:
  /// Nothing: leave the line out. Else how many of its kind were left out since the last one.
  [[nodiscard]] std::optional<uint64_t> admit(std::string_view kind, Clock::time_point now);

  /// Kinds of which lines were left out and would be admitted again, with the number; counts are
  /// then at zero.
  [[nodiscard]] std::vector<std::pair<std::string, uint64_t>> over(Clock::time_point now);

 private:
  struct Kind {
    double tokens = kLineBurst;
    Clock::time_point filled;
    uint64_t left_out = 0;
  };
  static void refill(Kind& kind, Clock::time_point now) noexcept;
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace npu::daemon
