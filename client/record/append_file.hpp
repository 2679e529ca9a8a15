// A file that only grows, written in large pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {

/// Text is kept until flush() or until 64 KiB have come together. What is not flushed is lost when
/// this goes away: a caller that wants it says so. Thread: one at a time.
class AppendFile {
 public:
  /// Opens or creates `path`. A last line without its newline (a crash, a full disk) is ended.
  /// Errors: as open and write say.
  [[nodiscard]] static Result<AppendFile> open(const std::string& path);

  /// Creates `path`, which must not be there. Errors: already_exists; as open says.
  [[nodiscard]] static Result<AppendFile> create(const std::string& path);

  /// With what waits to be flushed.
  [[nodiscard]] uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// True if the file held something when it was opened.
  [[nodiscard]] bool had_content() const noexcept { return had_content_; }

  /// Errors: as write says; a piece may then be in the file.
  [[nodiscard]] Result<void> append(std::string_view text);
  [[nodiscard]] Result<void> flush();

 private:
  AppendFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  [[nodiscard]] Result<void> look_at_the_end();

  UniqueFd fd_;
  std::string path_;
  std::string waiting_;
  uint64_t size_bytes_ = 0;
  bool had_content_ = false;
};

}  // namespace npu::client
