// Where the curves of a run go.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shm/base/error.hpp"

namespace npu::client {

/// Value of an environment variable, nullptr when it is not set: std::getenv or a test's.
using GetEnv = std::function<const char*(const char*)>;

/// The folder that holds a folder a run: `dir` if given, else $XDG_STATE_HOME/npu/runs, else
/// $HOME/.local/state/npu/runs; empty when neither says anything (a daemon without a home).
[[nodiscard]] std::string runs_folder(const std::optional<std::string>& dir, const GetEnv& env);

/// Makes `folder` and what is above it. Errors: as mkdir says.
[[nodiscard]] Result<void> make_folder(const std::string& folder);

}  // namespace npu::client
