// HCCL's rank table: a JSON file that says which device of which server has which rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::frontend {

/// Invariants: devices[r] is the device of rank r; ascending, ids 0 to 7.
struct RankTable {
  std::vector<int> devices;
};

/// Reads a table of one server. Errors: not_found (no file, exit 66); data_loss, exit 65, "rank
/// table ...", for what is not JSON, not of the format (all values are strings), not complete, for
/// ids that repeat or have gaps, for more than one server, for devices that do not ascend with the
/// ranks. Limits: 1 MiB.
[[nodiscard]] Result<RankTable> load_rank_table(const std::string& path);

/// The same for text; `name` is what messages call it.
[[nodiscard]] Result<RankTable> parse_rank_table(std::string_view text, const std::string& name);

}  // namespace npu::frontend
