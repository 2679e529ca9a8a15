// A profile as a table.
#pragma once

#include <string>
#include <vector>

#include "model/profile.hpp"

namespace npu::cli {

/// Rows of `steps` steps, an average step: first by kind of kernel, then by layer and kind. Rows
/// below a thousandth of the time are left out of the second table.
[[nodiscard]] std::string profile_text(const std::vector<model::ProfileRow>& rows, int steps);

}  // namespace npu::cli
