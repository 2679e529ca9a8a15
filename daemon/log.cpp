#include "daemon/log.hpp"

#include <spdlog/async.h>
#include <spdlog/cfg/helpers.h>
#include <spdlog/spdlog.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/log_limit.hpp"
#include "daemon/log_sinks.hpp"
#include "daemon/metrics/log_counter.hpp"

namespace npu::daemon {
namespace {

constexpr std::array<const char*, 4> kNames = {"ctl", "eng", "ckpt", "live"};
constexpr size_t kQueued = 8192;

/// Part of the loggers, which are global, too.
struct Limit {
  std::mutex mutex;
  LogLimit limit;
};
Limit& limit() {
  static Limit one;
  return one;
}

spdlog::level::level_enum spd_level(Level level) noexcept {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void start_logging(std::string_view levels) {
  spdlog::init_thread_pool(kQueued, 1);
  const auto sink = stderr_is_journal() ? journal_sink() : stderr_sink();
  for (const char* name : kNames) {
    auto logger = std::make_shared<spdlog::async_logger>(
        name, spdlog::sinks_init_list{sink, log_counter()}, spdlog::thread_pool(),
        spdlog::async_overflow_policy::overrun_oldest);
    logger->flush_on(spdlog::level::info);
    spdlog::register_logger(logger);
  }
  set_log_levels(levels);
}

void set_log_levels(std::string_view levels) {
  // The last level without a name wins, so this one is the default.
  spdlog::cfg::helpers::load_levels("info," + std::string(levels));
}

void stop_logging() { spdlog::shutdown(); }

void log_event(Level level, const char* name, std::string_view what,
               std::initializer_list<LogField> fields) {
  spdlog::logger& logger = log(name);
  const auto wanted = spd_level(level);
  if (!logger.should_log(wanted)) return;
  std::optional<uint64_t> left_out;
  {
    const std::lock_guard lock(limit().mutex);
    left_out = limit().limit.admit(what, Clock::now());
  }
  if (!left_out) return;
  if (*left_out == 0) {
    logger.log(wanted, spdlog::string_view_t(pack_line(what, fields)));
    return;
  }
  std::vector<LogField> all(fields);
  all.emplace_back("not_logged", *left_out);
  logger.log(wanted, spdlog::string_view_t(pack_line(what, all)));
}

void log_suppressed() {
  std::vector<std::pair<std::string, uint64_t>> over;
  {
    const std::lock_guard lock(limit().mutex);
    over = limit().limit.over(Clock::now());
  }
  for (const auto& [what, count] : over) {
    const std::array fields = {LogField("what", what), LogField("not_logged", count)};
    log("ctl").warn(spdlog::string_view_t(pack_line("lines were left out", fields)));
  }
}

spdlog::logger& log(const char* name) {
  static const auto fallback = [] {
    auto logger = std::make_shared<spdlog::logger>("early");
    return logger;
  }();
  const auto found = spdlog::get(name);
  return found != nullptr ? *found : *fallback;
}

}  // namespace npu::daemon
