#include "daemon/metrics/log_counter.hpp"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

namespace npu::daemon {
namespace {

TEST(LogCounter, CountsWhatIsWrittenByLevel) {
  spdlog::logger logger("test", log_counter());
  const uint64_t warnings = logged_messages(spdlog::level::warn), debug = logged_messages(spdlog::level::debug);
  logger.warn("one");
  logger.warn("two");
  logger.debug("not written at this level");
  EXPECT_EQ(logged_messages(spdlog::level::warn), warnings + 2);
  EXPECT_EQ(logged_messages(spdlog::level::debug), debug);
  EXPECT_EQ(dropped_messages(), 0u) << "no queue, nothing dropped";
}

}  // namespace
}  // namespace npu::daemon
