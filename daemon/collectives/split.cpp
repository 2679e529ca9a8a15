#include "daemon/collectives/split.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace npu::daemon {
namespace {

struct Choice {
  shm::SplitRequest request;
  uint32_t member;
};

using Choices = std::array<Choice, shm::kMaxDevices>;

bool before(const Choice& a, const Choice& b) noexcept {
  return std::tie(a.request.color, a.request.key, a.member) <
         std::tie(b.request.color, b.request.key, b.member);
}

/// What every member asked for, members of one colour side by side in their new order.
Choices sorted_choices(const Group& group) noexcept {
  Choices choices{};
  for (uint32_t m = 0; m < group.size; ++m) {
    choices[m].member = m;
    const auto& payload = group.matcher.head().by_member[m]->s.inline_payload;
    std::memcpy(&choices[m].request, payload.data(), sizeof(shm::SplitRequest));
  }
  // Not std::sort: GCC 12 suspects its cutoff of 16 elements to leave an array of 8.
  const auto end = choices.begin() + group.size;
  std::make_heap(choices.begin(), end, before);
  std::sort_heap(choices.begin(), end, before);
  return choices;
}

}  // namespace

bool split_group(const Group& group, GroupTable& groups, SplitResult& result) noexcept {
  const Choices choices = sorted_choices(group);
  std::array<uint32_t, shm::kMaxDevices> created{};
  uint32_t n = 0;
  for (auto& reply : result.replies) reply.communicator = shm::kNoCommunicator;
  for (uint32_t begin = 0, end = 0; begin < group.size; begin = end) {
    const int32_t color = choices[begin].request.color;
    for (end = begin; end < group.size && choices[end].request.color == color; ++end) {
    }
    if (color < 0) continue;
    ++result.wanted;
    shm::SplitReply reply{};
    reply.size = end - begin;
    for (uint32_t i = begin; i < end; ++i) {
      reply.members[i - begin] = group.members[choices[i].member];
    }
    const Group* made = groups.create({reply.members, reply.size});
    if (made == nullptr) continue;
    created[n++] = reply.communicator = made->id;
    for (uint32_t i = begin; i < end; ++i) {
      reply.rank = i - begin;
      result.replies[choices[i].member] = reply;
    }
  }
  if (n == result.wanted) return true;
  for (uint32_t i = 0; i < n; ++i) (void)groups.release(created[i]);  // never used
  return false;
}

}  // namespace npu::daemon
