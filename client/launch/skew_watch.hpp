// Which rank the others of a running job wait for, from the run's flight recorder.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/api/admin.hpp"
#include "client/render/live_view.hpp"

namespace npu::client {

/// Over the collectives in `records` that all of `world` ranks took part in and that are done;
/// nothing if there is none, or one rank.
[[nodiscard]] std::optional<RankSkew> skew_of(std::span<const shm::TraceRecord> records, int world);

/// Asks the daemon once; from then on the recorder is only read. Not for jobs of one rank.
/// Thread: one at a time.
class SkewWatch {
 public:
  /// Of the collectives since the last call, at most 512. Nothing if there are none or the recorder
  /// cannot be had: then it is not asked for again.
  [[nodiscard]] std::optional<RankSkew> sample(const std::string& socket, const std::string& run,
                                               int world);

 private:
  std::optional<TraceWatch> watch_;
  bool tried_ = false;
  uint64_t seen_ = 0;
};

}  // namespace npu::client
