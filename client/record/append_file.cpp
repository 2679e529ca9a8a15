#include "client/record/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>

namespace npu::client {
namespace {

constexpr size_t kPiece = 64 << 10;

}  // namespace

Result<AppendFile> AppendFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return fail_errno(fmt::format("open '{}'", path));
  AppendFile file(std::move(fd), path);
  NPU_TRY_VOID(file.look_at_the_end());
  return file;
}

Result<AppendFile> AppendFile::create(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return fail_errno(fmt::format("create '{}'", path));
  return AppendFile(std::move(fd), path);
}

Result<void> AppendFile::look_at_the_end() {
  struct stat st {};
  if (::fstat(fd_.get(), &st) != 0) return fail_errno(fmt::format("look at '{}'", path_));
  had_content_ = st.st_size > 0;
  size_bytes_ = static_cast<uint64_t>(st.st_size);
  char last = '\n';
  if (had_content_ && ::pread(fd_.get(), &last, 1, st.st_size - 1) != 1) {
    return fail_errno(fmt::format("read the end of '{}'", path_));
  }
  return last == '\n' ? Result<void>() : append("\n");
}

Result<void> AppendFile::append(std::string_view text) {
  waiting_ += text;
  size_bytes_ += text.size();
  return waiting_.size() < kPiece ? Result<void>() : flush();
}

Result<void> AppendFile::flush() {
  if (waiting_.empty()) return {};
  const std::string text = std::exchange(waiting_, {});
  return write_all(fd_.get(), std::as_bytes(std::span(text)), fmt::format("'{}'", path_));
}

}  // namespace npu::client
