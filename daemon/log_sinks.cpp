#include "daemon/log_sinks.hpp"

#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/log_line.hpp"

namespace npu::daemon {
namespace {

int priority_of(spdlog::level::level_enum level) noexcept {
  switch (level) {
    case spdlog::level::critical:
      return LOG_CRIT;
    case spdlog::level::err:
      return LOG_ERR;
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

std::string_view payload_of(const spdlog::details::log_msg& line) {
  return {line.payload.data(), line.payload.size()};
}

class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    const std::string text = line_text(payload_of(line));
    spdlog::details::log_msg readable = line;
    readable.payload = text;
    spdlog::memory_buf_t formatted;
    formatter_->format(readable, formatted);
    (void)std::fwrite(formatted.data(), 1, formatted.size(), stderr);
  }
  void flush_() override { (void)std::fflush(stderr); }
};

class JournalSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    const std::string_view packed = payload_of(line);
    const std::string text = line_text(packed);
    std::vector<std::string> fields = {
        "MESSAGE=" + text, "PRIORITY=" + std::to_string(priority_of(line.level)),
        "SYSLOG_IDENTIFIER=npud",
        "NPU_LOGGER=" + std::string(line.logger_name.data(), line.logger_name.size())};
    for (auto& [name, value] : line_fields(packed)) fields.push_back(name + "=" + value);
    std::vector<iovec> pieces;
    for (std::string& field : fields) pieces.push_back({field.data(), field.size()});
    if (::sd_journal_sendv(pieces.data(), static_cast<int>(pieces.size())) < 0) {
      (void)std::fprintf(stderr, "%s\n", text.c_str());
    }
  }
  void flush_() override {}
};

}  // namespace

bool stderr_is_journal() {
  const char* named = std::getenv("JOURNAL_STREAM");
  struct stat st {};
  if (named == nullptr || ::fstat(STDERR_FILENO, &st) != 0) return false;
  return std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino) == named;
}

std::shared_ptr<spdlog::sinks::sink> journal_sink() { return std::make_shared<JournalSink>(); }

std::shared_ptr<spdlog::sinks::sink> stderr_sink() {
  auto sink = std::make_shared<StderrSink>();
  sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n %t %v");
  return sink;
}

}  // namespace npu::daemon
