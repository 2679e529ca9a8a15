#include "client/launch/skew_watch.hpp"

#include <algorithm>
#include <bit>

#include "shm/trace_summary.hpp"

namespace npu::client {
namespace {

constexpr uint64_t kMostRecords = 512;

}  // namespace

std::optional<RankSkew> skew_of(std::span<const shm::TraceRecord> records, int world) {
  if (world < 2 || world > static_cast<int>(shm::kMaxDevices)) return std::nullopt;
  const auto ranks = static_cast<size_t>(world);
  RankSkew skew;
  skew.rank_lag_ms.resize(ranks);
  std::vector<int> last(ranks);
  int count = 0;
  for (const shm::TraceRecord& record : records) {
    const shm::TraceSummary s = shm::summarize(record, 0);
    const bool whole = std::popcount(record.members) == world && s.arrived == record.members;
    if (!whole || record.state != static_cast<uint8_t>(shm::TraceState::kDone)) continue;
    if (!s.straggler || *s.straggler >= ranks) continue;
    ++count;
    ++last[*s.straggler];
    skew.lag_ms += static_cast<double>(*s.last_ns - *s.first_ns) / 1e6;
    for (size_t r = 0; r < ranks; ++r) {
      skew.rank_lag_ms[r] += static_cast<double>(record.arrival_ns[r] - *s.first_ns) / 1e6;
    }
  }
  if (count == 0) return std::nullopt;
  const auto most = std::ranges::max_element(last);
  skew.last = static_cast<int>(most - last.begin());
  skew.share = static_cast<double>(*most) / count;
  skew.lag_ms /= count;
  for (double& lag : skew.rank_lag_ms) lag /= count;
  return skew;
}

std::optional<RankSkew> SkewWatch::sample(const std::string& socket, const std::string& run,
                                          int world) {
  if (!tried_ && world > 1) {
    tried_ = true;
    if (auto opened = TraceWatch::open(socket, run)) watch_.emplace(std::move(*opened));
  }
  if (!watch_) return std::nullopt;
  shm::TraceSnapshot now = watch_->snapshot(kMostRecords);
  const uint64_t fresh = now.opened - std::min(seen_, now.opened);
  seen_ = now.opened;
  const size_t use = std::min<uint64_t>(fresh, now.records.size());
  return skew_of(std::span(now.records).last(use), world);
}

}  // namespace npu::client
