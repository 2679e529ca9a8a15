#include "client/launch/confirm.hpp"

#include "client/api/admin.hpp"

namespace npu::client {

Result<void> confirm_checkpoint(const std::string& socket, const std::string& run, bool committed,
                                DoneEvent& done) {
  if (done.checkpoint.empty()) return {};
  auto files = open_checkpoint(socket, run, -1);
  if (files && files->path == done.checkpoint) {
    done.verified = true;
    return {};
  }
  if (!committed) return {};
  done.verified = false;
  if (!files) {
    files.error().message = fmt::format("verify the checkpoint '{}' of run '{}': {}",
                                        done.checkpoint, run, files.error().message);
    return tl::make_unexpected(std::move(files.error()));
  }
  return fail(
      Code::kDataLoss,
      "verify the checkpoint '{}' of run '{}': the newest valid one is '{}'{}{}; do not use "
      "the weights of this job before you know why",
      done.checkpoint, run, files->path, files->warning.empty() ? "" : ": ", files->warning);
}

}  // namespace npu::client
