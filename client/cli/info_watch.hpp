// npu info --watch: the same table again and again, until somebody has seen enough.
#pragma once

#include "client/cli/command.hpp"
#include "client/cli/info_state.hpp"

namespace npu::cli {

/// On a terminal the alternate screen, else a block (text) or an object (JSON) a refresh. A daemon
/// that goes away is shown and waited for, at the same place or at another that daemon_to_ask
/// finds. Returns when the reader of stdout went away. Errors: those of the first look; what
/// write(2) says.
[[nodiscard]] Result<void> watch_info(InfoProbe& probe, Format format, milliseconds every);

}  // namespace npu::cli
