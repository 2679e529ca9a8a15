// The run board: one a run, written by the daemon, read by every member. Members sleep on its
// doorbell, so one wake releases them all.
#pragma once

#include <cstdint>

#include "shm/layout_data.hpp"

namespace npu::shm {

inline constexpr uint32_t kAbortTextBytes = 464;

enum class RunState : uint32_t {
  kForming = 1,
  kRunning = 2,
  kAborted = 3,
  kEnded = 4,  // every rank has left in order; in listings only, nobody reads the board by then
  kPending = 5,  // its launcher waits for devices; in listings only
};

struct RunBoard {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> state;        // RunState
    std::atomic<uint32_t> joined_mask;  // bit r: rank r is attached
  } members;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> value;  // futex word: bumped at each completion, join and abort
  } doorbell;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> asleep;  // 1: submitters must ring; pairs with Descriptor::stamp
  } engine;
  /// Valid once state is kAborted (text before state: release, acquire).
  struct alignas(kLineBytes) {
    uint32_t code;    // npu::Code
    int32_t culprit;  // rank, -1 if none
    int64_t pid;      // of the culprit, 0 if unknown
    char text[kAbortTextBytes];
  } abort;
};
static_assert(std::is_standard_layout_v<RunBoard>);

}  // namespace npu::shm
