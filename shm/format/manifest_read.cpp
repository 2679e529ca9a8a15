#include <algorithm>
#include <array>

#include "shm/format/manifest_rules.hpp"
#include "shm/format/printable.hpp"
#include "shm/format/strict_json.hpp"

namespace npu {
namespace {

constexpr std::array<std::string_view, 9> kTopFields = {
    "schema",         "run",   "step",    "sequence",         "created_unix_ms",
    "weights_digest", "files", "tensors", "manifest_xxh3_128"};
constexpr std::array<std::string_view, 3> kFileFields = {"name", "bytes", "xxh3_128"};
constexpr std::array<std::string_view, 3> kTensorFields = {"file", "name", "xxh3_64"};

class ManifestHandler final : public JsonHandler {
 public:
  explicit ManifestHandler(Manifest* manifest) : manifest_(*manifest) {}

  [[nodiscard]] bool newer_schema() const noexcept { return newer_schema_; }

  bool on_begin_object() override {
    seen_ = 0;
    switch (level_) {
      case Level::kStart:
        level_ = Level::kTop;
        return true;
      case Level::kFiles:
        if (manifest_.files.size() == kMaxManifestFiles) return reject("too many files");
        manifest_.files.emplace_back();
        level_ = Level::kFile;
        return true;
      case Level::kTensors:
        manifest_.tensors.emplace_back();
        level_ = Level::kTensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool on_end_object() override {
    const auto names = fields();
    if (level_ == Level::kTop) seen_ = top_seen_;
    for (size_t i = 0; i < names.size(); ++i) {
      if ((seen_ >> i & 1U) == 0) return reject(fmt::format("field '{}' is missing", names[i]));
    }
    if (level_ == Level::kFile) level_ = Level::kFiles;
    if (level_ == Level::kTensor) level_ = Level::kTensors;
    return true;
  }

  bool on_begin_array() override {
    if (level_ != Level::kTop || (key_ != "files" && key_ != "tensors")) {
      return unexpected("an array");
    }
    level_ = key_ == "files" ? Level::kFiles : Level::kTensors;
    return true;
  }

  bool on_end_array() override {
    level_ = Level::kTop;
    return true;
  }

  bool on_key(std::string&& key) override {
    const auto names = fields();
    const auto it = std::ranges::find(names, key);
    if (it == names.end()) return reject(fmt::format("field '{}' is not known", printable(key)));
    unsigned& seen = level_ == Level::kTop ? top_seen_ : seen_;
    const unsigned bit = 1U << (it - names.begin());
    if ((seen & bit) != 0) return reject(fmt::format("field '{}' appears twice", key));
    // The schema decides what everything behind it means.
    if (level_ == Level::kTop && seen == 0 && key != "schema") {
      return reject("the first field must be 'schema'");
    }
    seen |= bit;
    key_ = std::move(key);
    return true;
  }

  bool on_string(std::string&& value) override {
    if (level_ == Level::kTop) return top_string(std::move(value));
    if (level_ == Level::kFile) {
      auto& file = manifest_.files.back();
      if (key_ == "name") return assign(&file.name, std::move(value));
      if (key_ == "xxh3_128") return digest(parse_hex128(value), &file.xxh3_128);
    }
    if (level_ == Level::kTensor) {
      auto& tensor = manifest_.tensors.back();
      if (key_ == "file") return assign(&tensor.file, std::move(value));
      if (key_ == "name") return assign(&tensor.name, std::move(value));
      if (key_ == "xxh3_64") return digest(parse_hex64(value), &tensor.xxh3_64);
    }
    return unexpected("a string");
  }

  bool on_unsigned(uint64_t value) override {
    if (level_ == Level::kFile && key_ == "bytes") {
      manifest_.files.back().size_bytes = value;
      return true;
    }
    if (level_ != Level::kTop) return unexpected("a number");
    if (key_ == "schema") {
      newer_schema_ = value > kManifestSchema;
      return value == kManifestSchema ||
             reject(fmt::format("schema {}, this build reads {}", value, kManifestSchema));
    }
    if (key_ == "step") return assign(&manifest_.step, std::move(value));
    if (key_ == "sequence") return assign(&manifest_.sequence, std::move(value));
    if (key_ == "created_unix_ms" && value <= INT64_MAX) {
      manifest_.created_unix_ms = static_cast<int64_t>(value);
      return true;
    }
    return unexpected("this number");
  }

 private:
  enum class Level : uint8_t { kStart, kTop, kFiles, kFile, kTensors, kTensor };

  [[nodiscard]] std::span<const std::string_view> fields() const noexcept {
    if (level_ == Level::kFile) return kFileFields;
    if (level_ == Level::kTensor) return kTensorFields;
    return kTopFields;
  }

  bool top_string(std::string&& value) {
    if (key_ == "run") return assign(&manifest_.run, std::move(value));
    if (key_ == "weights_digest") return digest(parse_hex64(value), &manifest_.weights_digest);
    if (key_ == "manifest_xxh3_128") return true;  // compared before parsing
    return unexpected("a string");
  }

  template <typename T>
  bool assign(T* to, T&& value) {
    *to = std::forward<T>(value);
    return true;
  }

  template <typename T>
  bool digest(const std::optional<T>& parsed, T* to) {
    if (!parsed) return reject(fmt::format("field '{}' is not a lower-case hex digest", key_));
    *to = *parsed;
    return true;
  }

  bool unexpected(std::string_view what) {
    return reject(fmt::format("{} is not expected in field '{}'", what, key_));
  }

  Manifest& manifest_;
  Level level_ = Level::kStart;
  unsigned top_seen_ = 0;
  unsigned seen_ = 0;
  std::string key_;
  bool newer_schema_ = false;
};

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, std::string_view where) {
  if (text.size() > kMaxManifestBytes) {
    return fail(Code::kDataLoss, "{}: {} bytes, at most {}", where, text.size(), kMaxManifestBytes);
  }
  // The digest is checked first, so the parser below sees damaged text only if somebody forged it.
  const size_t trailer_bytes = manifest_trailer({}).size();
  const size_t body_bytes = text.size() < trailer_bytes ? 0 : text.size() - trailer_bytes;
  if (body_bytes == 0 || text.substr(body_bytes) != manifest_trailer(text.substr(0, body_bytes))) {
    return fail(Code::kDataLoss,
                "{}: its own digest does not match; the manifest is cut or damaged", where);
  }
  Manifest manifest;
  ManifestHandler handler(&manifest);
  if (auto read = read_json(text, 3, handler, where); !read) {
    if (!handler.newer_schema()) return tl::make_unexpected(std::move(read.error()));
    return fail(Code::kUnimplemented, "{}: {}; a newer npud wrote it", where, handler.problem());
  }
  NPU_TRY_VOID(check_manifest(manifest, Code::kDataLoss, where));
  return manifest;
}

}  // namespace npu
