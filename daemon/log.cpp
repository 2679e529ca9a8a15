#include "daemon/log.hpp"

#include <spdlog/async.h>
#include <spdlog/cfg/helpers.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>

namespace npu::daemon {
namespace {

constexpr std::array<const char*, 4> kNames = {"ctl", "eng", "ckpt", "live"};
constexpr size_t kQueued = 8192;

}  // namespace

void start_logging(std::string_view levels) {
  spdlog::init_thread_pool(kQueued, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n %t %v");
  for (const char* name : kNames) {
    auto logger = std::make_shared<spdlog::async_logger>(
        name, sink, spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
    logger->flush_on(spdlog::level::info);
    spdlog::register_logger(logger);
  }
  spdlog::cfg::helpers::load_levels(std::string(levels));
}

void stop_logging() { spdlog::shutdown(); }

spdlog::logger& log(const char* name) {
  static const auto fallback = [] {
    auto logger = std::make_shared<spdlog::logger>("early");
    return logger;
  }();
  const auto found = spdlog::get(name);
  return found != nullptr ? *found : *fallback;
}

}  // namespace npu::daemon
