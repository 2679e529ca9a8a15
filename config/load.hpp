// From a YAML job file to a checked Job, and back to text.
// Reports everything that is wrong in one pass; never starts, opens or creates anything else.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::config {

/// Reads and checks `path`, then applies `overrides` ("train.epochs=1", values in YAML) over it.
/// Errors: not_found, exit 66, when there is no such file; invalid_argument, exit 78, with all
/// diagnostics as one multi-line message ready for stderr ("file:line:column: error: ...").
/// Limits: 1 MiB, 16 levels, no anchors, aliases or tags. `data.path` is not looked at.
[[nodiscard]] Result<Job> load_job(const std::string& path,
                                   std::span<const std::string> overrides = {});

/// Same for text already in memory; `file_name` is what the messages call it.
[[nodiscard]] Result<Job> load_job_text(std::string_view text, const std::string& file_name,
                                        std::span<const std::string> overrides = {});

/// The effective job as YAML, every key spelled out; loads back to an equal Job.
[[nodiscard]] std::string print_job(const Job& job);

/// Keys, types, defaults and one line of explanation each.
[[nodiscard]] std::string schema_text();

/// `text` as one YAML scalar that the loader reads as text: plain where that is safe beyond doubt, else quoted.
[[nodiscard]] std::string yaml_scalar(std::string_view text);

/// A key and its value as YAML, such as "optimizer.lr" and "0.1".
struct Setting {
  std::string key, value;
  bool operator==(const Setting&) const = default;
};

/// Every key of `job` with its effective value, in the order of `npu config schema`.
[[nodiscard]] std::vector<Setting> settings(const Job& job);

/// Sets keys of a loaded job by the rules of --set, all or nothing; exact for what settings() gave.
/// `what` is where they come from, for the message. Errors: invalid_argument, exit 78.
[[nodiscard]] Result<void> apply_settings(Job& job, std::span<const Setting> settings,
                                          const std::string& what);

/// XXH3-64 of the canonical print, the same on every host and in every version of the same schema.
/// Covers every key that changes what the ranks compute or write, and the number of devices. Leaves
/// out the device ids, train.print_freq and data.workers: ranks that differ there still train the
/// same run.
[[nodiscard]] uint64_t job_hash(const Job& job);

/// Why an Ascend training server would refuse this set of ascending device ids; empty if it would
/// not. Source: two rings of four, one process a device.
[[nodiscard]] std::string placement_problem(std::span<const int> devices);

}  // namespace npu::config
