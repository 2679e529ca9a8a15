#include "client/train/checkpoint_dir.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "shm/format/manifest.hpp"

namespace npu::client {
namespace {

constexpr uint64_t kPiece = 1 << 20;

Result<UniqueFd> open_in(const std::string& path, const char* name) {
  const std::string full = path + "/" + name;
  // Not blocking: a FIFO in its place must not hold us up.
  UniqueFd fd(::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("resume from '" + full + "'");
  return fd;
}

Result<uint64_t> size_of(int fd, const std::string& what) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("stat " + what);
  if (!S_ISREG(st.st_mode)) {
    return fail(Code::kDataLoss, "resume from '{}': not a regular file", what);
  }
  return static_cast<uint64_t>(st.st_size);
}

Result<Manifest> read_manifest(const std::string& path) {
  NPU_TRY(const UniqueFd fd, open_in(path, "MANIFEST.json"));
  const std::string what = path + "/MANIFEST.json";
  NPU_TRY(const uint64_t size, size_of(fd.get(), what));
  if (size > kMaxManifestBytes) {
    return fail(Code::kDataLoss, "{}: {} bytes, at most {}", what, size, kMaxManifestBytes);
  }
  std::string text(size, '\0');
  NPU_TRY_VOID(pread_all(fd.get(), std::as_writable_bytes(std::span(text)), 0, what));
  return parse_manifest(text, what);
}

Result<UniqueFd> open_verified(const std::string& path, const Manifest& manifest,
                               const char* name) {
  const std::string what = path + "/" + name;
  const ManifestFile* listed = manifest.find_file(name);
  if (listed == nullptr) {
    return fail(Code::kDataLoss, "resume from '{}': its manifest does not list {}", path, name);
  }
  NPU_TRY(UniqueFd fd, open_in(path, name));
  NPU_TRY(const uint64_t size, size_of(fd.get(), what));
  if (size != listed->size_bytes) {
    return fail(Code::kDataLoss, "resume from '{}': {} bytes, the manifest says {}", what, size,
                listed->size_bytes);
  }
  Xxh3 hash(Xxh3::Width::k128);
  std::vector<std::byte> buffer(std::min(kPiece, size));
  for (uint64_t at = 0; at < size; at += kPiece) {
    const auto piece = std::span(buffer).first(std::min(kPiece, size - at));
    NPU_TRY_VOID(pread_all(fd.get(), piece, at, what));
    hash.update(piece);
  }
  if (hash.digest128() != listed->xxh3_128) {
    return fail(Code::kDataLoss, "resume from '{}': digest {}, the manifest says {}", what,
                to_hex(hash.digest128()), to_hex(listed->xxh3_128));
  }
  return fd;
}

}  // namespace

Result<CheckpointFiles> open_checkpoint_dir(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return fail_errno("resume from '" + path + "'");
  if (!S_ISDIR(st.st_mode)) {
    return fail(Code::kFailedPrecondition,
                "resume from '{}': not a directory; a checkpoint is one, named step-N (weights "
                "alone go to model.pretrained)",
                path);
  }
  NPU_TRY(const Manifest manifest, read_manifest(path));
  CheckpointFiles files;
  files.path = path;
  files.step = static_cast<int64_t>(manifest.step);
  NPU_TRY(files.model, open_verified(path, manifest, "model.safetensors"));
  NPU_TRY(files.optimizer, open_verified(path, manifest, "optimizer.safetensors"));
  NPU_TRY(files.state, open_verified(path, manifest, "state.json"));
  return files;
}

}  // namespace npu::client
