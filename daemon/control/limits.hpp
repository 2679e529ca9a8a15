// What one client, one user and all of them may take from the control server, and what is kept
// back. Only a broken or hostile client reaches a limit: each is several times what ranks and tools
// need.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

inline constexpr size_t kMaxSessions = 256;
inline constexpr size_t kReservedSessions = 4;  // beyond those, for admins: a full house can be seen
inline constexpr size_t kMaxHalfOpenOfUid = 32;  // connected, not greeted; eight ranks come at once
/// Descriptors that newcomers may not take: who is in needs them for memory and checkpoints.
inline constexpr int kSpareFds = 64;

inline constexpr size_t kMaxUnread = 64;      // answers left unread when the next request comes
inline constexpr size_t kMaxUnreadFds = 16;   // descriptors among them
inline constexpr size_t kMaxOutgoing = 4096;  // with one long listing among them

inline constexpr double kMessagesPerSecond = 200;  // of one session
inline constexpr double kMessageBurst = 400;
inline constexpr double kLeastUserBurst = 32;  // of a user with a small quota; ranks come at once

inline constexpr uint32_t kMaxDiskTasksOfSession = 8;  // listings and openings in progress
inline constexpr uint32_t kMaxDiskTasksOfUid = 32;
inline constexpr uint32_t kMaxAllocationsOfUid = 16;  // arenas being made
inline constexpr uint32_t kMaxCommitsOfRun = 4;       // being written; a trainer has two stages

/// Tokens that come back with time. Thread: one.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst, Clock::time_point now) noexcept
      : per_second_(per_second), burst_(burst), tokens_(burst), filled_(now) {}

  [[nodiscard]] double available(Clock::time_point now) noexcept {
    const std::chrono::duration<double> passed = now - filled_;
    if (passed.count() > 0) {
      tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
      filled_ = now;
    }
    return tokens_;
  }
  /// False, and nothing is taken, if there is not a whole one.
  [[nodiscard]] bool take(Clock::time_point now) noexcept {
    if (available(now) < 1) return false;
    tokens_ -= 1;
    return true;
  }
  /// As good as a new one.
  [[nodiscard]] bool full(Clock::time_point now) noexcept { return available(now) >= burst_; }

 private:
  double per_second_, burst_;
  double tokens_;
  Clock::time_point filled_;
};

/// Who is connected when somebody knocks.
struct House {
  size_t most_of_uid = 64;  // the newcomer's quota, 0 = none
  bool admin = false;       // the newcomer is one
  size_t sessions = 0;
  size_t of_uid = 0;
  size_t half_open_of_uid = 0;
  int fd = 0;           // the descriptor that the newcomer got: the lowest that was free
  int fd_limit = 1024;  // RLIMIT_NOFILE
};

/// May `uid` come in? Errors: resource_exhausted, exit 75, with the count and the limit.
[[nodiscard]] Result<void> admit(int64_t uid, const House& house);

}  // namespace npu::daemon
