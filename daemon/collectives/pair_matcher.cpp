#include "daemon/collectives/pair_matcher.hpp"

#include <algorithm>

namespace npu::daemon {
namespace {

bool is_send(const Pending& p) noexcept { return static_cast<shm::Op>(p.s.op) == shm::Op::kSend; }

}  // namespace

PairMatcher::PairMatcher() {
  for (auto& list : unmatched_) list.reserve(shm::kQueueDepth);
  matched_.reserve(shm::kMaxDevices * shm::kQueueDepth / 2);
}

void PairMatcher::add(Pending& pending, uint32_t peer) noexcept {
  const bool send = is_send(pending);
  pending.sequence = send ? sent_[pending.rank][peer]++ : received_[peer][pending.rank]++;
  auto& waiting = unmatched_[peer];
  const auto partner = std::find_if(waiting.begin(), waiting.end(), [&](const Half& h) {
    return h.peer == pending.rank && is_send(*h.pending) != send &&
           h.pending->s.communicator == pending.s.communicator;
  });
  if (partner == waiting.end()) {
    unmatched_[pending.rank].push_back({&pending, peer});
    return;
  }
  matched_.push_back(send ? Pair{&pending, partner->pending, 0}
                          : Pair{partner->pending, &pending, 0});
  waiting.erase(partner);
}

void PairMatcher::drop(const Pending& pending) noexcept {
  auto& list = unmatched_[pending.rank];
  std::erase_if(list, [&](const Half& h) { return h.pending == &pending; });
}

}  // namespace npu::daemon
