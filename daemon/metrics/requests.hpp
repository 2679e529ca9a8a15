// Control requests by method and outcome, and how long they took.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "daemon/metrics/counters.hpp"
#include "shm/messages.hpp"

namespace npu::daemon {

enum class Method : uint8_t {
  kHello,
  kAttach,
  kDetach,
  kInfo,
  kPs,
  kCommit,
  kList,
  kOpen,
  kTrace,
  kQueue,
  kEvict,
  kDrain,
  kMetrics,
  kUnknown
};
inline constexpr size_t kMethods = 14;
[[nodiscard]] const char* method_name(Method method) noexcept;
[[nodiscard]] Method method_of(uint32_t message_type) noexcept;

/// Outcomes: npu::Code with 0 for success, and one more.
inline constexpr size_t kOutcomeGone = kCodes;  // the client went before it was answered
inline constexpr size_t kOutcomes = kCodes + 1;
[[nodiscard]] const char* outcome_name(size_t outcome) noexcept;

/// Thread: one, the control server. Bounded: of the requests beyond kMaxOpen that wait for an answer nothing is known.
class RequestMeter {
 public:
  static constexpr size_t kMaxOpen = 4096;

  void begin(uint64_t session, uint64_t request, Method method, uint64_t now_ns);
  /// A message to the client. Ends the request that it answers, if it is the last part of the answer.
  void answered(uint64_t session, std::span<const std::byte> message, uint64_t now_ns);
  /// The session is over, and with it what it asked.
  void forget(uint64_t session);

  [[nodiscard]] uint64_t count(Method method, size_t outcome) const noexcept {
    return counts_[static_cast<size_t>(method)][outcome];
  }
  [[nodiscard]] const Histogram& duration(Method method) const noexcept {
    return durations_[static_cast<size_t>(method)];
  }
  [[nodiscard]] size_t open() const noexcept { return open_.size(); }

 private:
  struct Open {
    Method method;
    uint64_t begin_ns;
  };
  std::map<std::pair<uint64_t, uint64_t>, Open> open_;  // by session and request
  std::array<std::array<uint64_t, kOutcomes>, kMethods> counts_{};
  std::array<Histogram, kMethods> durations_;
};

}  // namespace npu::daemon
