#include "shm/format/manifest.hpp"

#include <algorithm>

#include "shm/format/manifest_rules.hpp"
#include "shm/format/printable.hpp"
#include "shm/format/strict_json.hpp"

namespace npu {

const ManifestFile* Manifest::find_file(std::string_view name) const noexcept {
  const auto it = std::ranges::find(files, name, &ManifestFile::name);
  return it == files.end() ? nullptr : &*it;
}

uint64_t Manifest::total_bytes() const noexcept {
  uint64_t total = 0;  // check_manifest bounds each file, and their number
  for (const auto& file : files) total += file.size_bytes;
  return total;
}

Result<void> check_run_name(std::string_view run) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (!run.empty() && run.size() <= 64 && run != "." && run != ".." &&
      std::ranges::all_of(run, allowed)) {
    return {};
  }
  return fail(Code::kInvalidArgument,
              "run name '{}': expected 1 to 64 of a-z 0-9 . _ -, and not \".\" or \"..\"",
              printable(run, 80));
}

std::string manifest_trailer(std::string_view body) {
  return fmt::format("  \"manifest_xxh3_128\": \"{}\"\n}}\n",
                     to_hex(xxh3_128(std::as_bytes(std::span(body)))));
}

namespace {

bool is_file_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::ranges::all_of(name, allowed);
}

}  // namespace

Result<void> check_manifest(const Manifest& manifest, Code code, std::string_view where) {
  if (auto run = check_run_name(manifest.run); !run) {
    return fail(code, "{}: {}", where, run.error().message);
  }
  if (manifest.created_unix_ms < 0) return fail(code, "{}: created before 1970", where);
  if (manifest.files.empty() || manifest.files.size() > kMaxManifestFiles) {
    return fail(code, "{}: {} files, expected 1 to {}", where, manifest.files.size(),
                kMaxManifestFiles);
  }
  std::vector<std::string_view> names;
  for (const auto& file : manifest.files) {
    if (!is_file_name(file.name) || file.size_bytes > kMaxManifestFileBytes) {
      return fail(code, "{}: file '{}' of {} bytes is not allowed", where, printable(file.name),
                  file.size_bytes);
    }
    names.emplace_back(file.name);
  }
  std::ranges::sort(names);
  if (const auto twin = std::ranges::adjacent_find(names); twin != names.end()) {
    return fail(code, "{}: file '{}' is listed twice", where, *twin);
  }
  std::vector<std::pair<std::string_view, std::string_view>> tensors;
  tensors.reserve(manifest.tensors.size());
  for (const auto& tensor : manifest.tensors) {
    if (!std::ranges::binary_search(names, std::string_view(tensor.file))) {
      return fail(code, "{}: tensor '{}' is in file '{}', which is not listed", where,
                  printable(tensor.name), printable(tensor.file));
    }
    tensors.emplace_back(tensor.file, tensor.name);
  }
  std::ranges::sort(tensors);
  if (const auto twin = std::ranges::adjacent_find(tensors); twin != tensors.end()) {
    return fail(code, "{}: tensor '{}' is listed twice", where, printable(twin->second));
  }
  return {};
}

Result<std::string> write_manifest(const Manifest& manifest) {
  NPU_TRY_VOID(check_manifest(manifest, Code::kInvalidArgument, "write manifest"));
  std::string text = fmt::format(
      "{{\n  \"schema\": {},\n  \"run\": \"{}\",\n  \"step\": {},\n  \"sequence\": {},\n"
      "  \"created_unix_ms\": {},\n  \"weights_digest\": \"{}\",\n  \"files\": [",
      kManifestSchema, manifest.run, manifest.step, manifest.sequence, manifest.created_unix_ms,
      to_hex(manifest.weights_digest));
  const char* separator = "\n";
  for (const auto& file : manifest.files) {
    text += fmt::format(R"({}    {{"name": "{}", "bytes": {}, "xxh3_128": "{}"}})", separator,
                        file.name, file.size_bytes, to_hex(file.xxh3_128));
    separator = ",\n";
  }
  text += "\n  ],\n  \"tensors\": [";
  separator = "\n";
  for (const auto& tensor : manifest.tensors) {
    NPU_TRY(const std::string name, json_quote(tensor.name));
    text += fmt::format(R"({}    {{"file": "{}", "name": {}, "xxh3_64": "{}"}})", separator,
                        tensor.file, name, to_hex(tensor.xxh3_64));
    separator = ",\n";
  }
  text += "\n  ],\n";
  text += manifest_trailer(text);
  if (text.size() > kMaxManifestBytes) {
    return fail(Code::kInvalidArgument, "write manifest: {} bytes, at most {}", text.size(),
                kMaxManifestBytes);
  }
  return text;
}

}  // namespace npu
