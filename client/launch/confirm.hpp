// The proof at the end of a job: its last checkpoint can be read back.
#pragma once

#include <string>

#include "client/render/events.hpp"

namespace npu::client {

/// Asks the daemon at `socket` to read the newest valid checkpoint of `run` and check every digest,
/// and sets done.verified to whether it is the one that `done` names; nothing to do if it names
/// none. One that this launch did not commit may be anybody's file: then done.verified stays empty
/// instead. Errors, for a checkpoint that was `committed`: data_loss (another one, or none, is
/// valid); as the daemon says. Cost: one read of the checkpoint.
[[nodiscard]] Result<void> confirm_checkpoint(const std::string& socket, const std::string& run,
                                              bool committed, DoneEvent& done);

}  // namespace npu::client
