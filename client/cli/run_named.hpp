// Runs as people name them on a command line, and what to say when there is none of that name.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace npu::cli {

/// The folder that `npu launch` writes for a run: of that name below `dir` or the usual place, or
/// the path itself when `run` has a slash in it. It need not be there.
[[nodiscard]] std::string run_folder_named(const std::optional<std::string>& dir,
                                           const std::string& run);

/// Names of the runs that have a folder there, sorted.
[[nodiscard]] std::vector<std::string> recorded_runs(const std::optional<std::string>& dir);

/// "did you mean 'tiny'?", else "known: 'a', 'b'", else "none is known".
[[nodiscard]] std::string suggestion(const std::string& run, std::vector<std::string> known);

}  // namespace npu::cli
