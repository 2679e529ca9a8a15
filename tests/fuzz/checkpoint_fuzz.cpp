// Fuzzes the checkpoint store's loader: a good checkpoint is damaged in places that the input names,
// then loaded. Either the damage is found, or the bytes that come back are the ones that were
// committed: nothing in between, and no crash.
//
// Input: edits of six bytes (file, what, where, value) and, for what 3, as many more as the value
// says. With the first bit of the first byte the manifest is signed again, as a forger would.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/checkpoint/store.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/manifest_rules.hpp"

namespace npu::fuzz {
namespace {

constexpr std::array<const char*, 4> kFiles = {daemon::kModelFile, daemon::kOptimizerFile,
                                               daemon::kStateFile, daemon::kManifestFile};

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "checkpoint_fuzz: %s\n", what);
  std::abort();
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A store with one checkpoint in it, and what its files hold.
class Rig {
 public:
  Rig() {
    // Memory, where there is a place for it: thousands of checkpoints are written.
    dir_ = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/npu-fuzz-XXXXXX" : "/tmp/npu-fuzz-XXXXXX";
    check(::mkdtemp(dir_.data()) != nullptr, "no directory");
    auto store = daemon::CheckpointStore::open(dir_ + "/state");
    check(store.has_value(), "no store");
    store_.emplace(std::move(*store));
    commit();
    for (size_t i = 0; i < kFiles.size(); ++i) good_[i] = slurp(path(i));
    check(load(good_), "a good checkpoint is refused");
  }
  ~Rig() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  [[nodiscard]] std::string path(size_t file) const {
    return dir_ + "/state/1000/run/step-7/" + kFiles[file];
  }
  [[nodiscard]] const std::string& good(size_t file) const { return good_[file]; }

  /// True if it was taken.
  bool load(const std::array<std::string, 4>& files) {
    for (size_t i = 0; i < files.size(); ++i) {
      std::ofstream(path(i), std::ios::binary | std::ios::trunc) << files[i];
    }
    (void)store_->list(1000, "run");
    auto opened = store_->open_newest_valid(1000, "run");
    if (!opened) {
      check(!opened.error().message.empty(), "refused without a word");
      return false;
    }
    for (const auto& file : opened->files) {
      if (file.name == daemon::kManifestFile) continue;
      const auto* listed = opened->manifest.find_file(file.name);
      check(listed != nullptr && listed->size_bytes == file.size_bytes, "a file is not its manifest's");
      std::string bytes(file.size_bytes, '\0');
      check(pread_all(file.fd.get(), std::as_writable_bytes(std::span(bytes)), 0, "f").has_value(),
            "a file cannot be read");
      Xxh3 hash(Xxh3::Width::k128);
      hash.update(std::as_bytes(std::span(bytes)));
      check(hash.digest128() == listed->xxh3_128, "a file was taken that has another digest");
    }
    return true;
  }

 private:
  void commit() {
    weight_.fill(1.5F);
    const auto bytes = std::as_bytes(std::span(weight_));
    daemon::Snapshot snapshot;
    snapshot.uid = 1000;
    snapshot.run = "run";
    snapshot.step = 7;
    snapshot.keep = 1;
    snapshot.model = {{"conv.weight", DType::kFloat32, {4, 8}, bytes, xxh3_64(bytes)},
                      {"fc.bias", DType::kFloat32, {2}, bytes.first(8), xxh3_64(bytes.first(8))}};
    snapshot.optimizer = {{"conv.weight", DType::kFloat32, {32}, bytes, xxh3_64(bytes)}};
    snapshot.state_json = "{\"schema\": 2}";
    check(store_->commit(snapshot).has_value(), "cannot commit");
  }

  std::string dir_;
  std::optional<daemon::CheckpointStore> store_;
  std::array<float, 32> weight_{};
  std::array<std::string, 4> good_;
};

void edit(std::string& text, std::span<const uint8_t>& rest) {
  const uint8_t what = rest[1];
  const size_t at = text.empty() ? 0 : (rest[2] | size_t{rest[3]} << 8) % text.size();
  const auto value = static_cast<char>(rest[4]);
  const size_t more = rest[5];
  rest = rest.subspan(6);
  switch (what % 5) {
    case 0:
      if (!text.empty()) text[at] = value;
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      text.insert(at, 1, value);
      break;
    case 3: {
      const auto inserted = rest.first(std::min(more, rest.size()));
      rest = rest.subspan(inserted.size());
      text.replace(at, std::min(inserted.size(), text.size() - at),
                   reinterpret_cast<const char*>(inserted.data()), inserted.size());
      break;
    }
    default:
      if (!text.empty()) text.erase(at, 1 + more % 8);
  }
}

/// A forger knows how a manifest is signed.
std::string sign(const std::string& manifest) {
  const size_t trailer = manifest_trailer({}).size();
  const std::string body = manifest.substr(0, manifest.size() - std::min(trailer, manifest.size()));
  return body + manifest_trailer(body);
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace npu::fuzz;
  static Rig rig;
  std::array<std::string, 4> files;
  for (size_t i = 0; i < files.size(); ++i) files[i] = rig.good(i);
  std::span<const uint8_t> rest(data, size);
  const bool forged = size > 0 && (data[0] & 128) != 0;
  while (rest.size() >= 6) edit(files[rest[0] % 4], rest);
  if (forged) files[3] = sign(files[3]);
  rig.load(files);
  return 0;
}
