#include "daemon/control/replica_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "shm/format/digest.hpp"
#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

constexpr const char* kRemedy =
    "nothing was saved, launch again to go on from the newest checkpoint";
constexpr uint32_t kMaxRows = 100'000;  // five parts of the largest table of tensors

/// The rank whose digest most ranks share; the lowest one of equals.
uint32_t reference_rank(const CommitGathering& gathering, uint32_t world, uint32_t* agreeing) {
  uint32_t best = 0;
  *agreeing = 0;
  for (uint32_t r = 0; r < world; ++r) {
    const auto same = static_cast<uint32_t>(std::count_if(
        gathering.by_rank.begin(), gathering.by_rank.begin() + world, [&](const auto& other) {
          return other.replica_digest == gathering.by_rank[r].replica_digest;
        }));
    if (same <= *agreeing) continue;
    best = r;
    *agreeing = same;
  }
  return best;
}

/// A private copy of a rank's rows; empty when they do not lie in its arena.
std::vector<shm::ReplicaRow> rows_of(const shm::CheckpointCommit& commit,
                                     std::span<const std::byte> arena) {
  const uint64_t bytes = uint64_t{commit.digests_count} * sizeof(shm::ReplicaRow);
  if (commit.digests_count > kMaxRows || bytes > arena.size() ||
      commit.digests_offset > arena.size() - bytes) {
    return {};
  }
  std::vector<shm::ReplicaRow> rows(commit.digests_count);
  if (bytes > 0) std::memcpy(rows.data(), arena.data() + commit.digests_offset, bytes);
  return rows;
}

std::string part_name(const shm::ReplicaRow& row) {
  const std::string name = printable(shm::get_text(row.name));
  switch (static_cast<shm::ReplicaPart>(row.kind)) {
    case shm::ReplicaPart::kParameter:
      return fmt::format("parameter '{}'", name);
    case shm::ReplicaPart::kMomentum:
      return fmt::format("momentum of '{}'", name);
    case shm::ReplicaPart::kBuffer:
      return fmt::format("buffer '{}'", name);
    case shm::ReplicaPart::kAverage:
      return fmt::format("averaged weights of '{}'", name);
  }
  return fmt::format("part '{}'", name);
}

/// "parameter 'conv1.weight' and 3 other parts", or the digests when the rows tell nothing.
std::string what_differs(std::span<const shm::ReplicaRow> mine,
                         std::span<const shm::ReplicaRow> theirs, uint64_t digest,
                         uint64_t reference) {
  const shm::ReplicaRow* first = nullptr;
  size_t count = 0;
  for (size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
    if (mine[i].digest == theirs[i].digest) continue;
    if (first == nullptr) first = &mine[i];
    ++count;
  }
  if (first == nullptr) {
    return fmt::format("replica (digest {} instead of {})", to_hex(digest), to_hex(reference));
  }
  const std::string more = count == 1   ? ""
                           : count == 2 ? " and 1 other part"
                                        : fmt::format(" and {} other parts", count - 1);
  return part_name(*first) + more;
}

}  // namespace

std::optional<Divergence> compare_replicas(
    const CommitGathering& gathering, uint32_t world,
    const std::array<std::span<const std::byte>, shm::kMaxDevices>& arenas) {
  const auto& all = gathering.by_rank;
  uint32_t agreeing = 0;
  const uint32_t reference = reference_rank(gathering, world, &agreeing);
  if (agreeing == world) return std::nullopt;
  uint32_t odd = 0;
  while (all[odd].replica_digest == all[reference].replica_digest) ++odd;
  const std::string what =
      what_differs(rows_of(all[odd], arenas[odd]), rows_of(all[reference], arenas[reference]),
                   all[odd].replica_digest, all[reference].replica_digest);
  if (2 * agreeing > world) {
    return Divergence{
        odd, fmt::format("replica check at step {}: rank {}'s {} differs from that of the {} other "
                         "ranks that agree: its memory was damaged; {}",
                         gathering.step, odd, what, agreeing, kRemedy)};
  }
  return Divergence{
      odd, fmt::format("replica check at step {}: rank {}'s {} differs from rank {}'s, and no "
                       "majority tells which is right: the memory of one was damaged; {}",
                       gathering.step, odd, what, reference, kRemedy)};
}

}  // namespace npu::daemon
