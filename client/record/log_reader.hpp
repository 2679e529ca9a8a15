// The lines that RunLog keeps, read back in the order of their time, once or while the run goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/record/run_log.hpp"

namespace npu::client {

struct LogLine {
  std::string time{};  // "2026-12-01T12:34:56.789012Z"
  int source = kLauncher;
  LogStream stream = LogStream::kStdout;
  std::string text{};
};

/// A file that grows and is rotated under its reader.
class LogTail {
 public:
  LogTail(std::string path, int source) : path_(std::move(path)), source_(source) {}

  /// Appends the whole lines that came since the last call; the first one begins with the older
  /// file. `end`: nobody writes any more, so a last line without its newline counts. What is not of
  /// RunLog's form is shown with the time of the line before. Errors: as open and read say; a file
  /// that is not there has no lines.
  [[nodiscard]] Result<void> read(std::vector<LogLine>& lines, bool end);

 private:
  [[nodiscard]] Result<void> read_open_file(std::vector<LogLine>& lines);
  [[nodiscard]] Result<void> open(const std::string& path);
  [[nodiscard]] bool replaced() const;
  void take(std::string_view line, std::vector<LogLine>& lines);

  std::string path_;
  int source_;
  UniqueFd fd_;
  uint64_t offset_ = 0;
  std::string partial_, time_;
  bool first_ = true;
};

/// Thread: one at a time. What it reads is untrusted: a file is read from at most twice its bound
/// before its end.
class LogReader {
 public:
  /// Of all sources, or of one. Errors: not_found when the run keeps no lines at all.
  [[nodiscard]] static Result<LogReader> open(const std::string& run_folder,
                                              std::optional<int> source);

  /// Lines that came since the last call, by time. `end` as in LogTail.
  [[nodiscard]] Result<std::vector<LogLine>> read(bool end);

 private:
  LogReader(const std::string& folder, std::optional<int> only);

  std::vector<LogTail> tails_;  // of files that are there, and of those that may still come
};

}  // namespace npu::client
