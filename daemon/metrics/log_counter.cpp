#include "daemon/metrics/log_counter.hpp"

#include <spdlog/async.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>

namespace npu::daemon {
namespace {

class LevelCounter final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    counts[static_cast<size_t>(message.level)].fetch_add(1, std::memory_order_relaxed);
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  std::array<std::atomic<uint64_t>, spdlog::level::n_levels> counts{};
};

/// Global as the loggers are.
const std::shared_ptr<LevelCounter>& counter() {
  static const auto instance = std::make_shared<LevelCounter>();
  return instance;
}

}  // namespace

spdlog::sink_ptr log_counter() { return counter(); }

uint64_t logged_messages(spdlog::level::level_enum level) noexcept {
  return counter()->counts[static_cast<size_t>(level)].load(std::memory_order_relaxed);
}

uint64_t dropped_messages() {
  const auto pool = spdlog::thread_pool();
  return pool != nullptr ? pool->overrun_counter() : 0;
}

}  // namespace npu::daemon
