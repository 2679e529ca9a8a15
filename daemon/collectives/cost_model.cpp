#include "daemon/collectives/cost_model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/helper.hpp"
#include "daemon/collectives/ring.hpp"
#include "shm/base/clock.hpp"

namespace npu::daemon {
namespace {

constexpr uint32_t kRanks = shm::kMaxDevices;
constexpr uint64_t kSmall = 16 * 1024, kLarge = 256 * 1024;  // floats a rank
constexpr int kRounds = 5;
constexpr auto kBudget = milliseconds(15);  // a slow or busy machine gets fewer rounds

using Helpers = std::span<const std::unique_ptr<Helper>>;
enum class How : uint8_t { kAlone, kShared, kRing };

/// An all-reduce over private buffers, through the same steps as the coordinator takes.
class Probe {
 public:
  Probe(Helpers helpers, Parker& coordinator)
      : helpers_(helpers), coordinator_(coordinator), ring_(kRanks) {
    for (auto& buffer : buffers_) buffer.assign(kLarge, 0.0f);
  }

  /// Microseconds of one all-reduce of `count` floats.
  [[nodiscard]] double run(How how, uint64_t count) {
    prepare(how, count);
    const auto begin = Clock::now();
    if (how == How::kShared) share_slices(active_, helpers_);
    if (how == How::kRing) share_ring(active_, ring_, helpers_, coordinator_);
    while (!active_.finished()) {
      const bool moved =
          how == How::kRing ? step_ring(active_, ring_, helpers_, true) : run_one_slice(active_);
      if (!moved) sleep(how);
    }
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    for (const auto& helper : helpers_) helper->parker().notify();  // they leave the ring
    while (active_.users.load(std::memory_order_acquire) != 0) sleep(How::kShared);
    return us;
  }

 private:
  void prepare(How how, uint64_t count) {
    active_.op = shm::Op::kAllReduce;
    active_.algorithm = how == How::kRing ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
    active_.ranks = kRanks;
    active_.count = count;
    active_.slice_elements = kSliceBytes / active_.element_bytes;
    active_.kernel = &reduce_kernel(DType::kFloat32, ReduceOp::kSum);
    for (uint32_t r = 0; r < kRanks; ++r) {
      active_.recv[r] = reinterpret_cast<std::byte*>(buffers_[r].data());
      active_.send[r] = active_.recv[r];
    }
    active_.cut();
    active_.next.store(0, std::memory_order_relaxed);
    active_.done.store(0, std::memory_order_relaxed);
  }

  /// Until a helper reports; it notifies after each piece of news.
  void sleep(How how) {
    const uint32_t ticket = coordinator_.prepare();
    bool news = how == How::kRing && ring_.has_finished();
    for (uint32_t d = 0; how == How::kRing && d < kRanks / active_.ring_owners; ++d) {
      news |= ring_.has_work(d);
    }
    const bool over = active_.finished() && active_.users.load(std::memory_order_acquire) == 0;
    if (news || over) {
      coordinator_.cancel();
    } else {
      coordinator_.sleep(ticket, milliseconds(1));
    }
  }

  Helpers helpers_;
  Parker& coordinator_;
  Ring ring_;
  std::array<std::vector<float>, kRanks> buffers_;
  Active active_;
};

Line fit(double small_us, double large_us) noexcept {
  const double small_bytes = 2.0 * kRanks * kSmall * sizeof(float);
  const double large_bytes = 2.0 * kRanks * kLarge * sizeof(float);
  // On a busy machine the small one may have taken longer than the large one: then the average
  // speed of the large one is believed, within a factor.
  constexpr double kBelieved = 4;
  const double slope = std::max((large_us - small_us) / (large_bytes - small_bytes),
                                large_us / large_bytes / kBelieved);
  return {std::max(0.0, small_us - slope * small_bytes), 1e-3 / slope};
}

/// Where sharing begins to pay: alone.us(V) == shared.us(V). Bounded, because a moment in which
/// others used the cores must not decide for the daemon's whole life.
uint64_t share_threshold(const Line& alone, const Line& shared) noexcept {
  constexpr double kLeast = 256 * 1024, kMost = 4 * 1024 * 1024;
  const double gain = 1e-3 / alone.gbs - 1e-3 / shared.gbs;  // us a byte
  if (gain <= 0) return static_cast<uint64_t>(kMost);
  const double bytes = std::max(0.0, shared.fixed_us - alone.fixed_us) / gain;
  return static_cast<uint64_t>(std::clamp(bytes, kLeast, kMost));
}

}  // namespace

shm::Algorithm CostModel::choose(shm::Algorithm wish, uint32_t ranks,
                                 uint64_t bytes) const noexcept {
  if (wish != shm::Algorithm::kAuto) return wish;
  const double moved = 2.0 * ranks * static_cast<double>(bytes);
  const double direct = std::min(alone.us(moved), shared.us(moved));
  return ring.us(moved) < direct ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
}

std::string CostModel::text() const {
  const std::string from =
      share_bytes == UINT64_MAX ? "never" : fmt::format("from {} KiB", share_bytes / 1024);
  return fmt::format(
      "direct alone {:.1f} us + V / {:.1f} GB/s, shared {:.1f} us + V / {:.1f} GB/s {}, ring "
      "{:.1f} "
      "us + V / {:.1f} GB/s",
      alone.fixed_us, alone.gbs, shared.fixed_us, shared.gbs, from, ring.fixed_us, ring.gbs);
}

CostModel calibrate(Helpers helpers, Parker& coordinator) {
  Probe probe(helpers, coordinator);
  double best[3][2];
  for (auto& of_size : best) of_size[0] = of_size[1] = 1e9;
  const Deadline deadline = Deadline::after(kBudget);
  for (int round = 0; round < kRounds && (round == 0 || !deadline.passed()); ++round) {
    for (const How how : {How::kAlone, How::kShared, How::kRing}) {
      auto& of = best[static_cast<int>(how)];
      of[0] = std::min(of[0], probe.run(how, kSmall));
      of[1] = std::min(of[1], probe.run(how, kLarge));
    }
  }
  CostModel model;
  model.alone = fit(best[0][0], best[0][1]);
  model.shared = fit(best[1][0], best[1][1]);
  model.ring = fit(best[2][0], best[2][1]);
  model.share_bytes = helpers.empty() ? UINT64_MAX : share_threshold(model.alone, model.shared);
  return model;
}

}  // namespace npu::daemon
