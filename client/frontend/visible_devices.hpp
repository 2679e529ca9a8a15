// ASCEND_RT_VISIBLE_DEVICES: which devices a process may see, and their numbers from then on.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::frontend {

using GetEnv = std::function<const char*(const char* name)>;

struct VisibleDevices {
  std::string variable;  // its name
  std::vector<int> ids;  // ascending; may be empty
  std::string warning;   // what was dropped, empty if nothing
};

/// A comma list of ascending ids 0 to 7 without blanks. Reading stops at the first item that is not
/// one, as on Ascend hosts ("1, 2,3" is 1; "1,3,8" is 1,3; "-1" is none); the warning names it.
[[nodiscard]] VisibleDevices parse_visible(std::string_view variable, std::string_view list);

/// ASCEND_RT_VISIBLE_DEVICES or NPU_VISIBLE_DEVICES; nothing when neither is set. Errors:
/// invalid_argument, exit 64, when both are and differ.
[[nodiscard]] Result<std::optional<VisibleDevices>> visible_devices(const GetEnv& get);

/// `devices` of a job as ids of the host: i is the i-th visible one. Errors: failed_precondition,
/// exit 78, naming devices that are not there.
[[nodiscard]] Result<std::vector<int>> renumber(std::span<const int> devices,
                                                const VisibleDevices& visible);

}  // namespace npu::frontend
