#include "config/daemon.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace npu::config {
namespace {

using testing::HasSubstr;

TEST(LoadDaemon, ReadsSizesAndKeepsDefaults) {
  const auto sut = load_daemon_text("device_memory: 512MiB\nengine_threads: 2\n", "npud.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->device_memory_bytes, 512u << 20);
  EXPECT_EQ(sut->engine_threads, 2);
  EXPECT_EQ(sut->devices, 8);
  EXPECT_TRUE(load_daemon_text("", "npud.yaml"));
}

TEST(LoadDaemon, ReportsLikeAJob) {
  const auto sut = load_daemon_text("devices: 9\ndevise: 1\n", "npud.yaml");
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadConfig);
  EXPECT_THAT(sut.error().message,
              HasSubstr("npud.yaml:1:10: error: devices: '9' is out of range"));
  EXPECT_THAT(sut.error().message, HasSubstr("did you mean 'devices'?"));
  EXPECT_EQ(load_daemon_config("/nonexistent").error().exit, Exit::kNoInput);
}

TEST(LoadDaemon, PrintLoadsBack) {
  DaemonConfig config;
  config.state_dir = "/var/lib/np ud";
  config.checkpoint_limit_bytes = 12'345;
  const std::string text = print_daemon_config(config);
  const auto sut = load_daemon_text(text, "npud.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(print_daemon_config(*sut), text);
  EXPECT_THAT(daemon_schema_text(), HasSubstr("device_memory\n"));
}

TEST(LoadDaemon, LogLevelsAreChecked) {
  for (const char* good : {"info", "debug,ckpt=trace", "off", "ctl=err,live=warning", "warn,another=critical"}) {
    EXPECT_TRUE(load_daemon_text(fmt::format("log_level: {}\n", good), "npud.yaml")) << good;
  }
  for (const char* bad : {"loud", "info,ckpt=loud", "'info,,debug'", "ckpt=", "INFO"}) {
    const auto sut = load_daemon_text(fmt::format("log_level: {}\n", bad), "npud.yaml");
    ASSERT_FALSE(sut) << bad;
    EXPECT_THAT(sut.error().message, HasSubstr("npud.yaml:1:12: error: log_level: ")) << bad;
    EXPECT_THAT(sut.error().message, HasSubstr("is no level"));
  }
}

TEST(LoadDaemon, DifferencesSayWhatNeedsARestart) {
  DaemonConfig a, b;
  EXPECT_TRUE(differences(a, b).empty());
  b.devices = 4;
  b.service.drain_timeout = std::chrono::seconds(1);
  const auto sut = differences(a, b);
  ASSERT_EQ(sut.size(), 2u);
  EXPECT_EQ(sut[0].path, "devices");
  EXPECT_FALSE(sut[0].reloadable);
  EXPECT_EQ(sut[1].path, "service.drain_timeout");
  EXPECT_TRUE(sut[1].reloadable);
}

}  // namespace
}  // namespace npu::config
