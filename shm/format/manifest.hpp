// MANIFEST.json of one checkpoint: which files it has, how long they are and what every tensor
// hashes to. The text ends with a digest of itself, so a cut or edited manifest is found before
// anything in it is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/format/digest.hpp"

namespace npu {

inline constexpr uint32_t kManifestSchema = 1;
inline constexpr uint64_t kMaxManifestBytes = 64ULL << 20;

/// Begins the path of a checkpoint that is in the daemon's memory, "memory:RUN/step-N".
inline constexpr const char* kMemoryPath = "memory:";

struct ManifestFile {
  std::string name;  // [A-Za-z0-9._-]{1,64}, never "." or ".."
  uint64_t size_bytes = 0;
  Digest128 xxh3_128;
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct ManifestTensor {
  std::string file;  // one of files[].name
  std::string name;
  uint64_t xxh3_64 = 0;
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct Manifest {
  std::string run;
  uint64_t step = 0;
  uint64_t sequence =
      0;  // commit order inside the run: the highest is the newest, whatever its step
  int64_t created_unix_ms = 0;  // realtime clock, for people only
  uint64_t weights_digest =
      0;  // declared by the run: XXH3-64 of all parameters and buffers as plain OIHW fp32
  std::vector<ManifestFile> files = {};
  std::vector<ManifestTensor> tensors = {};

  [[nodiscard]] const ManifestFile* find_file(std::string_view name) const noexcept;
  [[nodiscard]] uint64_t total_bytes() const noexcept;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// "a-z0-9._-", 1 to 64 characters, not "." or "..": the only run names that ever become a path
/// component. Errors: invalid_argument with the rule.
[[nodiscard]] Result<void> check_run_name(std::string_view run);

/// Deterministic text: equal manifests give equal bytes. Errors: invalid_argument (a name that is
/// not UTF-8 or not allowed).
[[nodiscard]] Result<std::string> write_manifest(const Manifest& manifest);

/// Parses and checks untrusted text; `where` names it in messages. Errors: data_loss (cut, edited,
/// unknown, missing or duplicate field, value out of range, tensor of an unlisted file);
/// unimplemented (a newer schema).
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text, std::string_view where);

}  // namespace npu
