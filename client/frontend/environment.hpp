// The environment of a launch and of a rank that was started by hand, in torchrun's, Ascend's and
// our own words: read once, checked whole, turned into device numbers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/api/rank_place.hpp"
#include "client/frontend/rank_table.hpp"
#include "client/frontend/visible_devices.hpp"

namespace npu::frontend {

struct LaunchEnvironment {
  std::optional<VisibleDevices> visible;
  std::optional<RankTable> table;
  std::vector<std::string> remarks;  // for stderr: dropped, rounded, without effect

  /// The devices of a job that names none, as a job would write them.
  [[nodiscard]] std::string all_devices() const;
  /// `devices` of a job as ids of the host. Errors: failed_precondition, exit 78, when one is not
  /// visible or the rank table lists others.
  [[nodiscard]] Result<std::vector<int>> host_devices(std::span<const int> devices) const;
};

/// RANK_TABLE_FILE, *_VISIBLE_DEVICES, HCCL_*, MASTER_*; RANK and its family only to refuse a half
/// of one. Errors: invalid_argument naming what is missing, out of range or cannot be mixed;
/// load_rank_table's.
[[nodiscard]] Result<LaunchEnvironment> launch_environment(const GetEnv& get);

/// The place of a rank that was started by hand: client::rank_from_environment's, or with
/// RANK_TABLE_FILE that of RANK_ID in the table. Errors: theirs; any other rank variable beside
/// the table.
[[nodiscard]] Result<std::optional<client::RankPlace>> rank_place(const GetEnv& get);

}  // namespace npu::frontend
