#include "client/train/replica_rows.hpp"

#include "shm/format/digest.hpp"

namespace npu::client {
namespace {

using model::StateEntry;
using model::StateKind;
using shm::ReplicaPart;

/// Calls visit(index of the entry, part) for each row, in the order of the table.
template <typename Visitor>
void each_row(std::span<const StateEntry> entries, ReplicaRows::Parts parts, const Visitor& visit) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind == StateKind::kParameter) {
      visit(i, ReplicaPart::kParameter);
      visit(i, ReplicaPart::kMomentum);
      if (parts.average) visit(i, ReplicaPart::kAverage);
    } else if (entries[i].kind == StateKind::kBuffer && parts.buffers) {
      visit(i, ReplicaPart::kBuffer);
      if (parts.average) visit(i, ReplicaPart::kAverage);
    }
  }
}

/// Between two checkpoints each rank's statistics are its own.
bool moves_alone(const StateEntry& entry) { return entry.kind != StateKind::kParameter; }

std::span<const float> values_of(const model::StateExporter& exporter, const StateEntry& entry,
                                 size_t i, ReplicaPart part, const SnapshotSource& from) {
  switch (part) {
    case ReplicaPart::kParameter:
      return exporter.owned(i, from.parameters);
    case ReplicaPart::kMomentum:
      return exporter.owned(i, from.momentum);
    case ReplicaPart::kBuffer:
      return exporter.buffer(i, from.buffers);
    case ReplicaPart::kAverage:
      return entry.kind == StateKind::kParameter ? exporter.owned(i, from.average_parameters)
                                                 : exporter.buffer(i, from.average_buffers);
  }
  return {};
}

size_t count_rows(std::span<const StateEntry> entries, ReplicaRows::Parts parts) {
  size_t count = 0;
  each_row(entries, parts, [&](size_t, ReplicaPart) { ++count; });
  return count;
}

}  // namespace

uint64_t ReplicaRows::bytes(const model::Network& network, Parts parts) {
  return count_rows(network.state(), parts) * sizeof(shm::ReplicaRow) + 64;
}

Result<ReplicaRows> ReplicaRows::place(const model::Network& network, ArenaAllocator& arena,
                                       Parts parts) {
  const auto entries = network.state();
  ReplicaRows table;
  table.parts_ = parts;
  NPU_TRY(table.rows_, arena.take<shm::ReplicaRow>(count_rows(entries, parts)));
  table.offset_ = arena.offset_of(table.rows_.data());
  size_t row = 0;
  each_row(entries, parts, [&](size_t i, ReplicaPart part) {
    table.rows_[row].kind = static_cast<uint32_t>(part);
    shm::put_text(table.rows_[row].name, entries[i].name);
    ++row;
  });
  return table;
}

void ReplicaRows::fill(const model::StateExporter& exporter, std::span<const StateEntry> entries,
                       const SnapshotSource& source, shm::CheckpointCommit& commit) {
  Xxh3 all(Xxh3::Width::k64);
  size_t row = 0;
  each_row(entries, parts_, [&](size_t i, ReplicaPart part) {
    const bool skip = commit.check_only != 0 && moves_alone(entries[i]);
    const auto values = values_of(exporter, entries[i], i, part, source);
    const uint64_t digest = skip ? 0 : xxh3_64(std::as_bytes(values));
    rows_[row++].digest = digest;
    all.update(std::as_bytes(std::span(&digest, 1)));
  });
  commit.replica_digest = all.digest64();
  commit.digests_offset = offset_;
  commit.digests_count = static_cast<uint32_t>(rows_.size());
}

}  // namespace npu::client
