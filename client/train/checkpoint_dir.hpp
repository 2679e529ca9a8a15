// A checkpoint directory that the user names, outside of the daemon's store or inside.
#pragma once

#include <string>

#include "client/api/admin.hpp"

namespace npu::client {

/// Opens a step-N directory with the user's own rights and compares every byte with its
/// MANIFEST.json. Errors: not_found, permission_denied as errno says; data_loss naming the file;
/// failed_precondition when it is no checkpoint at all. Cost: one read of all files.
[[nodiscard]] Result<CheckpointFiles> open_checkpoint_dir(const std::string& path);

}  // namespace npu::client
