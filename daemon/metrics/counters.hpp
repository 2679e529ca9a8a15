// What the engine counts while it works, for whoever scrapes metrics: relaxed atomics with one writer, so that counting
// is a load and a store and reading disturbs nobody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/layout_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

/// Thread: add and set by the one writer, value by any.
class Counter {
 public:
  void add(uint64_t more) noexcept { set(value() + more); }
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// Durations in buckets of a microsecond times 4^i, up to a second, and beyond.
/// Thread: add by the one writer, read by any; a reader may see a duration in its bucket and not yet in the sum.
class Histogram {
 public:
  static constexpr size_t kBounds = 11;
  using Counts = std::array<uint64_t, kBounds + 1>;  // the last one: longer than every bound

  [[nodiscard]] static constexpr uint64_t bound_ns(size_t bucket) noexcept { return uint64_t{1000} << (2 * bucket); }
  /// The first bucket whose bound is not below `ns`.
  [[nodiscard]] static constexpr size_t bucket_of(uint64_t ns) noexcept {
    const uint64_t above = ns == 0 ? 0 : (ns - 1) / 1000;
    return std::min(kBounds, (static_cast<size_t>(std::bit_width(above)) + 1) / 2);
  }

  void add(uint64_t ns) noexcept {
    counts_[bucket_of(ns)].add(1);
    sum_ns_.add(ns);
  }
  [[nodiscard]] Counts counts() const noexcept {
    Counts counts;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i].value();
    return counts;
  }
  [[nodiscard]] uint64_t sum_ns() const noexcept { return sum_ns_.value(); }

 private:
  std::array<Counter, kBounds + 1> counts_;
  Counter sum_ns_;
};

/// How an operation ended, in the words of the label `result`.
enum class OpResult : uint8_t { kOk, kTimeout, kAborted, kMismatch, kRefused };
inline constexpr size_t kOpResults = 5;
[[nodiscard]] const char* op_result_name(OpResult result) noexcept;
/// `code`: 0, or an npu::Code. kRefused: what was asked for is not possible, and the run goes on.
[[nodiscard]] OpResult op_result_of(uint8_t code) noexcept;

/// Payload of one rank: up to 4 KiB, 64 KiB, 1 MiB, above.
inline constexpr size_t kSizeClasses = 4;
[[nodiscard]] constexpr size_t size_class_of(uint64_t bytes) noexcept {
  return bytes <= (4u << 10) ? 0 : bytes <= (64u << 10) ? 1 : bytes <= (1u << 20) ? 2 : 3;
}

inline constexpr size_t kDTypeClasses = size_t{kDTypeCount} + 1;  // the last one: the operation has none
inline constexpr size_t kCodes = 13;                              // npu::Code, 0 = none

/// An operation that is over, as the coordinator counts it.
struct FinishedOp {
  uint8_t op = 0, dtype = 0;  // as the ranks asked; values that do not exist are counted as none
  uint8_t algorithm = 0;
  uint8_t code = 0;
  bool nonfinite = false;
  uint64_t payload_bytes = 0;          // of one rank
  uint64_t first_ns = 0, last_ns = 0;  // arrivals
  uint64_t start_ns = 0;               // 0: it was done at once
  uint64_t end_ns = 0;
};

/// Of all runs since the daemon's start. Writer: the engine's coordinator.
struct EngineCounters {
  template <typename T>
  using ByOp = std::array<T, shm::kOpCount>;
  template <typename T>
  using ByType = std::array<T, kDTypeClasses>;

  ByOp<ByType<std::array<std::array<Counter, kOpResults>, shm::kAlgorithmCount>>> ops;
  ByOp<ByType<Counter>> bytes;
  ByOp<ByType<Counter>> nonfinite;
  ByOp<std::array<Histogram, kSizeClasses>> duration;  // last arrival to completion
  ByOp<Histogram> arrival_skew;                        // first arrival to last
  struct Device {
    Counter reduce_ns, copy_ns;  // while an operation of the kind was executed for the device
    std::array<Counter, kCodes> errors;
  };
  std::array<Device, shm::kMaxDevices> devices;

  void count(const FinishedOp& op) noexcept;
  /// `op` was executed in the memory of `device`.
  void count_busy(uint32_t device, const FinishedOp& op) noexcept;
};

/// Of one generation of a run. Writer: the engine's coordinator.
struct RunCounters {
  struct Rank {
    Counter taken;          // submissions
    Counter open;           // those of them that are not answered
    Counter last_ns;        // when one was last taken, CLOCK_MONOTONIC; 0 = never
    Counter last_arrivals;  // operations of several ranks that waited for this one
  };
  std::array<Rank, shm::kMaxDevices> ranks;
  Counter started, ended;  // operations for which a rank arrived; that are over
};

}  // namespace npu::daemon
