#include <algorithm>

#include "daemon/checkpoint/dir_io.hpp"
#include "daemon/checkpoint/inspect.hpp"
#include "daemon/checkpoint/staged_file.hpp"
#include "shm/format/printable.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::daemon {
namespace {

/// A tensor's bytes in its file, and what they must hash to.
struct Expected {
  std::string name;
  uint64_t begin = 0;  // from the start of the file
  uint64_t end = 0;
  uint64_t xxh3_64 = 0;
};

class Verifier {
 public:
  Verifier(FileOps& ops, const Manifest& manifest, std::string checkpoint)
      : ops_(ops), manifest_(manifest), checkpoint_(std::move(checkpoint)), buffer_(kBounceBytes) {}

  /// Reads all of `file` once: the digest of each tensor and of the whole.
  [[nodiscard]] tl::expected<void, Damage> check(int fd, const ManifestFile& file) {
    std::vector<Expected> tensors;
    if (std::string_view(file.name).ends_with(".safetensors")) {
      auto found = expected_tensors(fd, file);
      if (!found) return tl::make_unexpected(Damage{{}, std::move(found.error())});
      tensors = std::move(*found);
    }
    return stream(fd, file, tensors);
  }

 private:
  [[nodiscard]] Result<std::vector<Expected>> expected_tensors(int fd, const ManifestFile& file) {
    const std::string what = checkpoint_ + ": " + file.name;
    std::byte first8[8] = {};
    if (file.size_bytes >= 8) NPU_TRY_VOID(read_bytes(ops_, fd, first8, 0, what));
    NPU_TRY(const uint64_t length, safetensors_header_bytes(first8, file.size_bytes, what));
    std::string json(length, '\0');
    NPU_TRY_VOID(read_bytes(ops_, fd, std::as_writable_bytes(std::span(json)), 8, what));
    NPU_TRY(const SafetensorsHeader header, parse_safetensors_header(json, file.size_bytes, what));

    std::vector<const ManifestTensor*> listed;
    for (const auto& tensor : manifest_.tensors) {
      if (tensor.file == file.name) listed.push_back(&tensor);
    }
    std::ranges::sort(listed, {}, &ManifestTensor::name);
    if (listed.size() != header.tensors.size()) {
      return fail(Code::kDataLoss, "{} holds {} tensors, the manifest lists {}", what,
                  header.tensors.size(), listed.size());
    }
    std::vector<Expected> tensors;
    for (const auto& entry : header.tensors) {
      const auto it = std::ranges::lower_bound(listed, entry.name, {}, &ManifestTensor::name);
      if (it == listed.end() || (*it)->name != entry.name) {
        return fail(Code::kDataLoss, "{}: tensor '{}' is not in the manifest", what,
                    printable(entry.name));
      }
      tensors.push_back({entry.name, header.data_offset + entry.begin,
                         header.data_offset + entry.end, (*it)->xxh3_64});
    }
    return tensors;
  }

  [[nodiscard]] tl::expected<void, Damage> stream(int fd, const ManifestFile& file,
                                                  std::span<const Expected> tensors) {
    const std::string what = checkpoint_ + ": " + file.name;
    Xxh3 whole(Xxh3::Width::k128);
    Xxh3 one(Xxh3::Width::k64);
    size_t current = 0;
    for (uint64_t at = 0; at < file.size_bytes;) {
      const auto piece =
          std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), file.size_bytes - at));
      if (auto read = read_bytes(ops_, fd, piece, at, what); !read) {
        const std::string tensor = current < tensors.size() ? tensors[current].name : "";
        return tl::make_unexpected(Damage{tensor, std::move(read.error())});
      }
      whole.update(piece);
      const uint64_t piece_end = at + piece.size();
      // Entries tile the data, so the tensors of this piece are the next few.
      while (current < tensors.size() && tensors[current].begin < piece_end) {
        const Expected& tensor = tensors[current];
        const uint64_t from = std::max(at, tensor.begin);
        const uint64_t to = std::min(piece_end, tensor.end);
        if (to > from) one.update(std::span<const std::byte>(piece).subspan(from - at, to - from));
        if (tensor.end > piece_end) break;
        if (auto same = compare(one.digest64(), tensor, what); !same) return same;
        one.reset();
        ++current;
      }
      at = piece_end;
    }
    // Empty tensors at the very end of the data begin where no piece reaches.
    for (; current < tensors.size(); ++current) {
      if (auto same = compare(xxh3_64({}), tensors[current], what); !same) return same;
    }
    if (whole.digest128() == file.xxh3_128) return {};
    return damage("", fmt::format("{}: digest {}, the manifest says {}", what,
                                  to_hex(whole.digest128()), to_hex(file.xxh3_128)));
  }

  static tl::expected<void, Damage> compare(uint64_t digest, const Expected& tensor,
                                            const std::string& what) {
    if (digest == tensor.xxh3_64) return {};
    return damage(tensor.name,
                  fmt::format("{}: tensor '{}' is damaged (digest {}, the manifest says {})", what,
                              printable(tensor.name), to_hex(digest), to_hex(tensor.xxh3_64)));
  }

  static tl::expected<void, Damage> damage(std::string tensor, std::string message) {
    return tl::make_unexpected(Damage{std::move(tensor), Error{Code::kDataLoss, std::move(message),
                                                               default_exit(Code::kDataLoss)}});
  }

  FileOps& ops_;
  const Manifest& manifest_;
  std::string checkpoint_;
  std::vector<std::byte> buffer_;
};

}  // namespace

tl::expected<void, Damage> verify_files(FileOps& ops, const OpenCheckpoint& checkpoint,
                                        const std::string& name) {
  Verifier verifier(ops, checkpoint.manifest, name);
  for (size_t i = 0; i < checkpoint.manifest.files.size(); ++i) {
    auto good = verifier.check(checkpoint.files[i].fd.get(), checkpoint.manifest.files[i]);
    if (!good) return good;
  }
  return {};
}

tl::expected<OpenCheckpoint, Damage> open_verified(FileOps& ops, const RunDir& run, uint64_t step) {
  auto out = open_files(ops, run, step);
  if (!out) return tl::make_unexpected(Damage{{}, std::move(out.error())});
  auto good = verify_files(ops, *out, fmt::format("run '{}' step {}", run.run, step));
  if (!good) return tl::make_unexpected(std::move(good.error()));
  return std::move(*out);
}

}  // namespace npu::daemon
