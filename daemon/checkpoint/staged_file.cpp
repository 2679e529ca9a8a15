#include "daemon/checkpoint/staged_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/checkpoint/dir_io.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/base/units.hpp"

namespace npu::daemon {

Result<StagedFile> StagedFile::create(FileOps& ops, int dir, const std::string& name,
                                      uint64_t size_bytes, std::span<std::byte> bounce,
                                      const std::string& checkpoint) {
  NPU_TRY(UniqueFd fd,
          open_file(ops, dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600, name + " of " + checkpoint));
  StagedFile file(ops, std::move(fd), name, size_bytes, bounce, checkpoint);
  while (size_bytes > 0 && ops.fallocate(file.fd_.get(), size_bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP)
      break;  // the disk may then fill up while writing, which is handled too
    return fail_errno(fmt::format("reserve {} for {}", format_bytes(size_bytes), file.what_));
  }
  return file;
}

Result<void> StagedFile::append(std::span<const std::byte> source, Xxh3* also) {
  appended_bytes_ += source.size();
  while (!source.empty()) {
    const auto room = bounce_.subspan(filled_, std::min(source.size(), bounce_.size() - filled_));
    std::memcpy(room.data(), source.data(), room.size());
    if (also != nullptr) also->update(room);
    filled_ += room.size();
    source = source.subspan(room.size());
    if (filled_ == bounce_.size()) NPU_TRY_VOID(flush());
  }
  return {};
}

Result<void> StagedFile::flush() {
  const auto piece = bounce_.first(filled_);
  hash_.update(piece);
  filled_ = 0;
  NPU_TRY_VOID(write_bytes(*ops_, fd_.get(), piece, what_));
  NPU_FAILPOINT("ckpt.after_piece");  // of a file that has more
  return {};
}

Result<ManifestFile> StagedFile::finish() {
  NPU_TRY_VOID(flush());
  NPU_CHECK(appended_bytes_ == size_bytes_);
  NPU_TRY_VOID(sync(*ops_, fd_.get(), what_));
  NPU_FAILPOINT("ckpt.after_fsync");  // 1 model, 2 optimizer, 3 state, 4 manifest
  return ManifestFile{name_, size_bytes_, hash_.digest128()};
}

}  // namespace npu::daemon
