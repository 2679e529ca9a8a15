// Bash completion, written from the tree of options: subcommands, options, their values, keys of
// --set, job files.
#pragma once

#include <string>

#include "client/cli/help_tree.hpp"

namespace npu::cli {

/// A script for /usr/share/bash-completion/completions/npu. It asks nobody: no program, no daemon.
[[nodiscard]] std::string bash_completion(const HelpCommand& program);

}  // namespace npu::cli
