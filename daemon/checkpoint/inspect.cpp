#include "daemon/checkpoint/inspect.hpp"

#include <fcntl.h>

#include <algorithm>
#include <tuple>

#include "daemon/checkpoint/dir_io.hpp"
#include "daemon/checkpoint/names.hpp"

namespace npu::daemon {
namespace {

// Also returns the open manifest, so that what a client gets is what was read here.
Result<OpenFile> read_manifest(FileOps& ops, int step_dir, const RunDir& run, uint64_t step,
                               Manifest* out) {
  const std::string what = fmt::format("run '{}' step {}: {}", run.run, step, kManifestFile);
  auto fd = open_file(ops, step_dir, kManifestFile, O_RDONLY, 0, what);
  if (!fd) {
    if (fd.error().code == Code::kNotFound) return fail(Code::kDataLoss, "{} is missing", what);
    return tl::make_unexpected(std::move(fd.error()));
  }
  NPU_TRY(const uint64_t size, regular_size(ops, fd->get(), what));
  if (size > kMaxManifestBytes) {
    return fail(Code::kDataLoss, "{}: {} bytes, at most {}", what, size, kMaxManifestBytes);
  }
  std::string text(size, '\0');
  NPU_TRY_VOID(read_bytes(ops, fd->get(), std::as_writable_bytes(std::span(text)), 0, what));
  NPU_TRY(Manifest manifest, parse_manifest(text, what));
  if (manifest.run != run.run || manifest.step != step) {
    return fail(Code::kDataLoss, "{} belongs to run '{}' step {}; the directory was moved", what,
                manifest.run, manifest.step);
  }
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    if (manifest.find_file(name) == nullptr) {
      return fail(Code::kDataLoss, "{} does not list {}", what, name);
    }
  }
  *out = std::move(manifest);
  return OpenFile{kManifestFile, std::move(*fd), size};
}

Result<OpenFile> open_listed(FileOps& ops, int step_dir, const ManifestFile& file,
                             const std::string& checkpoint) {
  const std::string what = checkpoint + ": " + file.name;
  auto fd = open_file(ops, step_dir, file.name, O_RDONLY, 0, what);
  if (!fd) {
    // A listed file that is gone is damage, not a wrong question.
    if (fd.error().code == Code::kNotFound) return fail(Code::kDataLoss, "{} is missing", what);
    return tl::make_unexpected(std::move(fd.error()));
  }
  NPU_TRY(const uint64_t size, regular_size(ops, fd->get(), what));
  if (size != file.size_bytes) {
    return fail(Code::kDataLoss, "{} has {} bytes, the manifest says {}", what, size,
                file.size_bytes);
  }
  return OpenFile{file.name, std::move(*fd), size};
}

}  // namespace

Result<OpenCheckpoint> open_files(FileOps& ops, const RunDir& run, uint64_t step) {
  const std::string what = fmt::format("run '{}' step {}", run.run, step);
  NPU_TRY(const UniqueFd dir, open_dir(ops, run.fd.get(), step_name(step), what));
  OpenCheckpoint out;
  out.path = run.path + "/" + step_name(step);
  NPU_TRY(OpenFile manifest_file, read_manifest(ops, dir.get(), run, step, &out.manifest));
  for (const auto& file : out.manifest.files) {
    NPU_TRY(out.files.emplace_back(), open_listed(ops, dir.get(), file, what));
  }
  out.files.push_back(std::move(manifest_file));
  return out;
}

Result<std::vector<ScannedStep>> scan_run(FileOps& ops, const RunDir& run) {
  NPU_TRY(const auto names, list_names(ops, run.fd.get(), fmt::format("run '{}'", run.run)));
  std::vector<ScannedStep> steps;
  for (const auto& name : names) {
    if (const auto step = parse_step_name(name)) {
      steps.push_back({*step, open_files(ops, run, *step).map([](OpenCheckpoint&& checkpoint) {
                         return std::move(checkpoint.manifest);
                       })});
    }
  }
  std::ranges::sort(steps, std::greater<>(), [](const ScannedStep& s) {
    return std::tuple(s.manifest.has_value(), s.manifest ? s.manifest->sequence : 0,
                      s.manifest ? s.manifest->created_unix_ms : 0, s.step);
  });
  return steps;
}

}  // namespace npu::daemon
