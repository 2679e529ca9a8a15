// What the launcher and the ranks of a run said, kept beside its curves for `npu logs`: a file a
// source, bounded, each line with its time. docs/design/014-run-output.md.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "client/record/append_file.hpp"
#include "client/record/launcher_lock.hpp"
#include "client/render/renderer.hpp"

namespace npu::client {

inline constexpr int kLauncher = -1;                   // as a source of lines, beside ranks
inline constexpr uint64_t kLogFileBytes = 4ULL << 20;  // then it is rotated, once
inline constexpr size_t kLogPrefixBytes = 32;          // "2026-12-01T12:34:56.789012Z out "

/// "rank-3.log" or "launch.log", in <run folder>/logs; what was before it in "rank-3.log.1".
[[nodiscard]] std::string log_file_name(int source);

struct RunLogOptions {
  std::string folder{};  // of the run; empty: nothing is kept
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;
  uint64_t file_bytes = kLogFileBytes;
  std::function<void(const std::string&)> warn{};  // called once at most
};

/// Invariants: (1) nothing is made before the run has started or a rank has said something: a job
/// that is refused leaves no folder; what the launcher said until then is kept and written first.
/// (2) A file holds at most `file_bytes`, and there is one older one. (3) The first failure is one
/// warning, and the last thing it does. (4) The run's launcher lock is held while files are
/// written. Thread: one at a time. Cost: one write(2) a line.
class RunLog {
 public:
  explicit RunLog(RunLogOptions options);

  /// What a person reads of the event; the start of the run opens the files.
  void event(const Event& event);
  /// One or more lines of the launcher.
  void launcher(LogStream stream, std::string_view text);
  void rank(int rank, LogStream stream, std::string_view line);

 private:
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> write(int source, const std::string& line);
  [[nodiscard]] std::string stamped(LogStream stream, std::string_view line) const;
  void keep(int source, LogStream stream, std::string_view text);
  void note(const Result<void>& done);

  RunLogOptions options_;
  std::optional<LauncherLock> lock_;  // taken when the files are opened
  std::map<int, AppendFile> files_;
  std::deque<std::string> early_;
  bool broken_ = false;
};

}  // namespace npu::client
