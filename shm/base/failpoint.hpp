// Named places in the code at which a test makes a process die, stop, sleep or meet an error, asked
// for by the environment. Builds without failpoints (CMake option NPU_FAILPOINTS) contain none of
// it: the macros are constants, and no name is in the binary.
//
//   NPU_FAILPOINTS="name=action[:arg][@hit][,...]"
//     name    of a place in the code; "rank3/name" in the process whose RANK is 3 only
//     action  kill, stop, segv; sleep:200ms; errno:ENOSPC; close and garbage, which the place does
//     itself hit     the passage at which it acts: 1 (the first, default), 2, ... or "every"
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu::failpoint {

enum class Action : uint8_t { kNone, kKill, kStop, kSegv, kSleep, kErrno, kClose, kGarbage };

#ifndef NPU_NO_FAILPOINTS

/// What a passage came upon; kill, stop, segv and sleep have been carried out.
struct Passage {
  Action action = Action::kNone;
  int error = 0;  // of kErrno
};

/// Replaces what this process is asked for; an empty text asks for nothing. `rank` is that of
/// "rankN/", -1: none. Not while other threads pass. Errors: invalid_argument (exit 64) naming the
/// entry.
[[nodiscard]] Result<void> arm(std::string_view text, int rank);

/// arm() with the variables NPU_FAILPOINTS and RANK (or RANK_ID). Call it first thing in main.
[[nodiscard]] Result<void> arm_from_environment();

/// Thread: any; nothing allocates or locks.
[[nodiscard]] Passage pass(std::string_view name) noexcept;

/// Whether anything is asked for. Global because a place has nobody to get it from; written by
/// arm() only.
inline std::atomic<bool> armed{false};

#define NPU_FAILPOINT_ARMED_ ::npu::failpoint::armed.load(std::memory_order_relaxed)

/// A place to kill, stop, crash or sleep at. Cost: one relaxed load while nothing is asked for.
#define NPU_FAILPOINT(name)                \
  do {                                     \
    if (NPU_FAILPOINT_ARMED_) [[unlikely]] \
      (void)::npu::failpoint::pass(name);  \
  } while (false)

/// The same; its value is the errno to fail with, 0 for none.
#define NPU_FAILPOINT_ERRNO(name) (NPU_FAILPOINT_ARMED_ ? ::npu::failpoint::pass(name).error : 0)

/// The same; true when the place is to do `wanted` (close, garbage) itself. Ask once a passage.
#define NPU_FAILPOINT_ASKED(name, wanted) \
  (NPU_FAILPOINT_ARMED_ && ::npu::failpoint::pass(name).action == (wanted))

#else

[[nodiscard]] inline Result<void> arm(std::string_view, int) { return {}; }
[[nodiscard]] inline Result<void> arm_from_environment() { return {}; }

#define NPU_FAILPOINT(name) static_cast<void>(0)
#define NPU_FAILPOINT_ERRNO(name) 0
#define NPU_FAILPOINT_ASKED(name, wanted) false

#endif

}  // namespace npu::failpoint
