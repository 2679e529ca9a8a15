// Where the daemon's socket and state live when nobody says otherwise; both sides ask here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu::shm {

inline constexpr const char* kSocketName = "npud.sock";

/// RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/npud, /tmp/npud-<uid>.
[[nodiscard]] std::string default_runtime_dir();
/// STATE_DIRECTORY, $XDG_STATE_HOME/npud, ~/.local/state/npud, /tmp/npud-<uid>/state.
[[nodiscard]] std::string default_state_dir();
/// NPUD_SOCKET if set (then only that), else the user's runtime directories, then /run/npud.
[[nodiscard]] std::vector<std::string> default_sockets();

}  // namespace npu::shm
