// What `auto` decides by: the time of each algorithm as a + V/B, measured with the engine's own
// threads and kernels when the daemon starts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shm/submit_data.hpp"

namespace npu::daemon {

class Helper;
class Parker;

/// Time of an operation that moves `bytes`: fixed_us + bytes / gbs.
struct Line {
  double fixed_us = 0;
  double gbs = 1;
  [[nodiscard]] double us(double bytes) const noexcept { return fixed_us + bytes / gbs * 1e-3; }
};

/// Bytes are those of an all-reduce of N ranks by `direct`: 2NS.
struct CostModel {
  Line alone;   // direct, the coordinator
  Line shared;  // direct, all engine threads
  Line ring;    // ring, all engine threads
  /// Operations that move more than this are shared with the helpers.
  uint64_t share_bytes = 1 << 20;

  /// `wish` if it is not auto, else the faster of direct and ring for S = `bytes` a rank.
  [[nodiscard]] shm::Algorithm choose(shm::Algorithm wish, uint32_t ranks,
                                      uint64_t bytes) const noexcept;
  /// "direct 1.2 us + V/35.1 GB/s alone, ..." for the log.
  [[nodiscard]] std::string text() const;
};

/// Cost: about 10 ms. Thread: the coordinator's, before it serves. Small and large all-reduces of
/// eight private buffers, best of several; helpers must be idle.
[[nodiscard]] CostModel calibrate(std::span<const std::unique_ptr<Helper>> helpers,
                                  Parker& coordinator);

}  // namespace npu::daemon
