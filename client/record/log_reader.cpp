#include "client/record/log_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "shm/layout_data.hpp"

namespace npu::client {
namespace {

constexpr size_t kPiece = 64 << 10;
constexpr size_t kLongestLine = 128 << 10;  // RunLog's are of 64 KiB at most, and a prefix

bool is_prefix(std::string_view line) noexcept {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd.ddddddZ ";
  if (line.size() < kLogPrefixBytes || line[kLogPrefixBytes - 1] != ' ') return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (kForm[i] == 'd' ? !digit : line[i] != kForm[i]) return false;
  }
  const std::string_view stream = line.substr(kForm.size(), 3);
  return stream == "out" || stream == "err";
}

}  // namespace

Result<void> LogTail::open(const std::string& path) {
  fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_.valid()) {
    return errno == ENOENT ? Result<void>() : fail_errno(fmt::format("open '{}'", path));
  }
  struct stat st {};
  if (::fstat(fd_.get(), &st) != 0) return fail_errno(fmt::format("look at '{}'", path));
  if (!S_ISREG(st.st_mode)) {
    fd_.reset();
    return fail(Code::kDataLoss, "'{}' is not a file; remove it", path);
  }
  const auto size = static_cast<uint64_t>(st.st_size);
  offset_ = size > 2 * kLogFileBytes ? size - 2 * kLogFileBytes : 0;
  partial_.clear();
  return {};
}

Result<void> LogTail::read(std::vector<LogLine>& lines, bool end) {
  if (std::exchange(first_, false)) {
    NPU_TRY_VOID(open(path_ + ".1"));
    if (fd_.valid()) NPU_TRY_VOID(read_open_file(lines));
    fd_.reset();
  }
  if (!fd_.valid()) NPU_TRY_VOID(open(path_));
  // Twice: it may be rotated while it is read; what it was is read to its end first.
  for (int i = 0; i < 2 && fd_.valid(); ++i) {
    NPU_TRY_VOID(read_open_file(lines));
    if (!replaced()) break;
    NPU_TRY_VOID(read_open_file(lines));
    NPU_TRY_VOID(open(path_));
  }
  if (end && !partial_.empty()) take(std::exchange(partial_, {}), lines);
  return {};
}

/// True when the name belongs to another file by now.
bool LogTail::replaced() const {
  struct stat mine {
  }, named{};
  return ::fstat(fd_.get(), &mine) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino);
}

Result<void> LogTail::read_open_file(std::vector<LogLine>& lines) {
  std::array<char, kPiece> piece;
  for (;;) {
    const ssize_t n = ::pread(fd_.get(), piece.data(), piece.size(), static_cast<off_t>(offset_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(fmt::format("read '{}'", path_));
    if (n == 0) return {};
    offset_ += static_cast<uint64_t>(n);
    std::string_view bytes(piece.data(), static_cast<size_t>(n));
    for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n')) {
      partial_ += bytes.substr(0, at);
      take(std::exchange(partial_, {}), lines);
      bytes.remove_prefix(at + 1);
    }
    partial_ += bytes;
    if (partial_.size() > kLongestLine) take(std::exchange(partial_, {}), lines);
  }
}

void LogTail::take(std::string_view line, std::vector<LogLine>& lines) {
  LogLine out{.source = source_};
  if (is_prefix(line)) {
    time_ = line.substr(0, kLogPrefixBytes - 5);
    if (line.substr(kLogPrefixBytes - 4, 3) == "err") out.stream = LogStream::kStderr;
    line.remove_prefix(kLogPrefixBytes);
  }
  out.time = time_;
  out.text = line;
  lines.push_back(std::move(out));
}

Result<LogReader> LogReader::open(const std::string& run_folder, std::optional<int> source) {
  const std::string folder = run_folder + "/logs";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return fail(Code::kNotFound, "no lines of this run are kept: '{}' is not there", folder);
  }
  return LogReader(folder, source);
}

LogReader::LogReader(const std::string& folder, std::optional<int> only) {
  for (int source = kLauncher; source < static_cast<int>(shm::kMaxDevices); ++source) {
    if (!only || *only == source) tails_.emplace_back(folder + '/' + log_file_name(source), source);
  }
}

Result<std::vector<LogLine>> LogReader::read(bool end) {
  std::vector<LogLine> lines;
  for (LogTail& tail : tails_) NPU_TRY_VOID(tail.read(lines, end));
  // Within one source lines are in order already, and a stable sort keeps them there.
  std::ranges::stable_sort(lines, {}, &LogLine::time);
  return lines;
}

}  // namespace npu::client
