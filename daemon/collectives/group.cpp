#include "daemon/collectives/group.hpp"

#include <algorithm>
#include <new>

namespace npu::daemon {

Group::Group(uint32_t group_id, std::span<const uint8_t> world_ranks, uint64_t blocks)
    : id(group_id),
      size(static_cast<uint32_t>(world_ranks.size())),
      matcher(size),
      ring(size),
      // Not touched before it is used: large, and most communicators never ask for sums.
      block_sums(std::make_unique_for_overwrite<double[]>(blocks)) {
  std::copy(world_ranks.begin(), world_ranks.end(), members.begin());
  for (const uint8_t rank : world_ranks) rank_mask |= 1u << rank;
}

int Group::member_of(uint32_t world_rank) const noexcept {
  for (uint32_t m = 0; m < size; ++m) {
    if (members[m] == world_rank) return static_cast<int>(m);
  }
  return -1;
}

GroupTable::GroupTable(uint32_t world, uint64_t blocks) : blocks_(blocks) {
  for (uint32_t slot = 0; slot < next_id_.size(); ++slot) next_id_[slot] = slot;
  std::array<uint8_t, shm::kMaxDevices> all{0, 1, 2, 3, 4, 5, 6, 7};
  slots_[0] =
      std::make_unique<Group>(next_id_[0], std::span<const uint8_t>(all.data(), world), blocks);
  next_id_[0] += shm::kMaxCommunicators;
}

Group* GroupTable::find(uint32_t id) noexcept {
  Group* group = slots_[id % shm::kMaxCommunicators].get();
  return group != nullptr && group->id == id ? group : nullptr;
}

Group* GroupTable::create(std::span<const uint8_t> world_ranks) noexcept {
  const auto slot = std::find(slots_.begin(), slots_.end(), nullptr);
  if (slot == slots_.end()) return nullptr;
  uint32_t& id = next_id_[static_cast<size_t>(slot - slots_.begin())];
  try {
    *slot = std::make_unique<Group>(id, world_ranks, blocks_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  id += shm::kMaxCommunicators;
  return slot->get();
}

std::unique_ptr<Group> GroupTable::release(uint32_t id) noexcept {
  if (find(id) == nullptr) return nullptr;
  return std::move(slots_[id % shm::kMaxCommunicators]);
}

uint32_t GroupTable::free_slots() const noexcept {
  return static_cast<uint32_t>(std::count(slots_.begin(), slots_.end(), nullptr));
}

}  // namespace npu::daemon
