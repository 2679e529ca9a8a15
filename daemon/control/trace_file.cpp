#include "daemon/control/trace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/checkpoint/dir_io.hpp"

namespace npu::daemon {
namespace {

// One name for all: there is one writer, and the next one replaces what a killed one left.
constexpr const char* kTempName = ".writing";

Result<UniqueFd> open_traces(FileOps& ops, const std::string& state_dir) {
  const UniqueFd root(::open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return fail_errno("open the state directory '" + state_dir + "'");
  return ensure_dir(ops, root.get(), kTraceDir, "the directory of traces");
}

/// Nanoseconds of its last change; 0 for what cannot be opened, so that it goes first.
int64_t age_key(FileOps& ops, int dir, const std::string& name) {
  const auto fd = open_file(ops, dir, name, O_RDONLY | O_NONBLOCK, 0, name);
  struct stat st {};
  if (!fd || ops.fstat(fd->get(), &st) != 0) return 0;
  return int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
}

Result<void> remove_old(FileOps& ops, int dir, const std::string& keep) {
  NPU_TRY(const auto names, list_names(ops, dir, "the directory of traces"));
  std::vector<std::pair<int64_t, std::string>> others;
  for (const std::string& name : names) {
    if (name.ends_with(".json") && name != keep) {
      others.emplace_back(age_key(ops, dir, name), name);
    }
  }
  if (others.size() < kTraceFiles) return {};
  std::ranges::sort(others);
  others.resize(others.size() - (kTraceFiles - 1));
  for (const auto& [changed_ns, name] : others) NPU_TRY_VOID(remove_entry(ops, dir, name));
  return {};
}

}  // namespace

Result<std::string> write_trace_file(const std::string& state_dir, const std::string& name,
                                     std::string_view text) {
  FileOps& ops = FileOps::system();
  NPU_TRY(const UniqueFd dir, open_traces(ops, state_dir));
  const std::string path = state_dir + "/" + kTraceDir + "/" + name;
  NPU_TRY_VOID(remove_entry(ops, dir.get(), kTempName));
  NPU_TRY(const UniqueFd file, open_file(ops, dir.get(), kTempName, O_WRONLY | O_CREAT | O_EXCL,
                                         0600, "'" + path + "'"));
  auto written = write_bytes(ops, file.get(), std::as_bytes(std::span(text)), "'" + path + "'");
  if (written) written = rename_entry(ops, dir.get(), kTempName, name, 0);
  if (!written) {
    (void)remove_entry(ops, dir.get(), kTempName);  // a disk that is full keeps no half of it
    return tl::make_unexpected(std::move(written.error()));
  }
  NPU_TRY_VOID(remove_old(ops, dir.get(), name));
  return path;
}

}  // namespace npu::daemon
