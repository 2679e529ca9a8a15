#include "daemon/service/reload.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace npu::daemon {
namespace {

using testing::HasSubstr;

class ReloadTest : public testing::Test {
 protected:
  Result<Reloaded> again(const std::string& text) {
    const std::string path = dir_.path() + "/npud.yaml";
    std::ofstream(path) << text;
    return read_again(path, started_, present_);
  }
  test::TempDir dir_;
  config::DaemonConfig started_, present_;
};

TEST_F(ReloadTest, TellsWhatTakesEffectFromWhatDoesNot) {
  const auto sut = again("log_level: debug\ndevices: 4\nstate_dir: /srv\nservice: {drain_timeout: 3s}\n");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->changed, "log_level, service.drain_timeout");
  EXPECT_EQ(sut->needs_restart, "devices, state_dir");
  EXPECT_EQ(sut->config.service.drain_timeout, std::chrono::seconds(3));
}

TEST_F(ReloadTest, WhatWaitsForARestartWaitsOn) {
  present_.devices = 4;  // read by an earlier reload
  const auto sut = again("devices: 4\n");
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->changed, "");
  EXPECT_EQ(sut->needs_restart, "devices");
}

TEST_F(ReloadTest, ABadFileIsAnErrorOnOneLine) {
  const auto sut = again("devices: 9\nlog_level: loud\ndevise: 1\n");
  ASSERT_FALSE(sut);
  const std::string line = in_one_line(sut.error().message);
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_THAT(line, HasSubstr("npud.yaml:1:10: error: devices: '9' is out of range"));
  EXPECT_THAT(line, HasSubstr("; "));
  EXPECT_THAT(line, HasSubstr("npud.yaml:2:12: error: log_level: 'loud' is no level"));
  EXPECT_EQ(in_one_line("no such file\nsecond line"), "no such file");
  EXPECT_EQ(in_one_line(""), "");
}

// What is installed as /etc/npu/npud.yaml says that it holds the defaults.
TEST_F(ReloadTest, TheShippedFileHoldsTheDefaults) {
  const auto sut = config::load_daemon_config(NPU_EXAMPLE_CONFIG);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(config::print_daemon_config(*sut), config::print_daemon_config({}));
}

}  // namespace
}  // namespace npu::daemon
