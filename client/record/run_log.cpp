#include "client/record/run_log.hpp"

#include <fmt/chrono.h>

#include <cstdio>

#include "client/record/run_folder.hpp"
#include "client/render/event_text.hpp"

namespace npu::client {
namespace {

constexpr size_t kEarlyLines = 256;  // of a launcher whose run has not started

}  // namespace

std::string log_file_name(int source) {
  return source == kLauncher ? "launch.log" : fmt::format("rank-{}.log", source);
}

RunLog::RunLog(RunLogOptions options)
    : options_(std::move(options)), broken_(options_.folder.empty()) {}

void RunLog::event(const Event& event) {
  if (broken_) return;
  if (std::holds_alternative<StartEvent>(event)) note(open());
  if (const auto said = event_text(event)) launcher(said->stream, said->text);
}

void RunLog::launcher(LogStream stream, std::string_view text) { keep(kLauncher, stream, text); }

void RunLog::rank(int rank, LogStream stream, std::string_view line) {
  if (broken_) return;
  note(open());
  keep(rank, stream, line);
}

void RunLog::keep(int source, LogStream stream, std::string_view text) {
  if (broken_) return;
  do {  // a line may be empty
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line = stamped(stream, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (lock_) {
      note(write(source, line));
    } else {
      early_.push_back(std::move(line));
      if (early_.size() > kEarlyLines) early_.pop_front();
    }
  } while (!broken_ && !text.empty());
}

std::string RunLog::stamped(LogStream stream, std::string_view line) const {
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(options_.now().time_since_epoch())
          .count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z {} {}\n", fmt::gmtime(us / 1'000'000),
                     us % 1'000'000, stream == LogStream::kStdout ? "out" : "err", line);
}

Result<void> RunLog::open() {
  if (lock_ || broken_) return {};
  NPU_TRY_VOID(make_folder(options_.folder + "/logs"));
  NPU_TRY(lock_, LauncherLock::take(options_.folder));
  for (const std::string& line : early_) NPU_TRY_VOID(write(kLauncher, line));
  early_.clear();
  return {};
}

Result<void> RunLog::write(int source, const std::string& line) {
  const std::string path = options_.folder + "/logs/" + log_file_name(source);
  auto file = files_.find(source);
  if (file != files_.end() && file->second.size_bytes() + line.size() > options_.file_bytes) {
    files_.erase(file);
    file = files_.end();
    if (::rename(path.c_str(), (path + ".1").c_str()) != 0) {
      return fail_errno(fmt::format("rename '{}' to '{}.1'", path, path));
    }
  }
  if (file == files_.end()) {
    NPU_TRY(AppendFile opened, AppendFile::open(path));
    file = files_.emplace(source, std::move(opened)).first;
  }
  NPU_TRY_VOID(file->second.append(line));
  return file->second.flush();
}

void RunLog::note(const Result<void>& done) {
  if (done || broken_) return;
  broken_ = true;
  files_.clear();
  lock_.reset();
  options_.warn(
      fmt::format("warning: what the ranks say is not kept any further: {}; the job goes "
                  "on, `npu logs` shows what there is",
                  done.error().message));
}

}  // namespace npu::client
