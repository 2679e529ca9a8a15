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

TEST(LoadDaemon, MetricsAreRepeatedUnderOtherNamesOnlyIfAsked) {
  EXPECT_EQ(load_daemon_text("", "npud.yaml")->metrics_compat, MetricsCompat::kNone);
  const auto sut = load_daemon_text("metrics: {compat: ascend}\n", "npud.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->metrics_compat, MetricsCompat::kAscend);
  const auto wrong = load_daemon_text("metrics: {compat: ascent, listen: 127.0.0.1:9464}\n", "npud.yaml");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().exit, Exit::kBadConfig);
  EXPECT_THAT(wrong.error().message, HasSubstr("metrics.compat"));
  EXPECT_THAT(wrong.error().message, HasSubstr("did you mean 'ascend'?"));
  EXPECT_THAT(wrong.error().message, HasSubstr("listen"));
}

TEST(LoadDaemon, PrintLoadsBack) {
  DaemonConfig config;
  config.state_dir = "/var/lib/np ud";
  config.quotas.everybody.most[0] = 3;
  config.quotas.users = {{.user = "alice", .most = {2, 1 << 20}}, {.user = "10 01"}};
  config.metrics_compat = MetricsCompat::kAscend;
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

constexpr auto kDevices = static_cast<size_t>(QuotaKind::kDevices);
constexpr auto kMemory = static_cast<size_t>(QuotaKind::kMemory);

TEST(LoadQuotas, AreForEverybodyAndForSingleUsers) {
  const auto sut = load_daemon_text(
      "quotas:\n  users:\n    alice: {devices: 2, memory: 1GiB}\n    1001:\n      devices: 0\n"
      "  devices: 4\n",
      "npud.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->quotas.everybody[QuotaKind::kDevices], 4u);
  EXPECT_EQ(sut->quotas.everybody[QuotaKind::kSessions], 64u) << "the default";
  ASSERT_EQ(sut->quotas.users.size(), 2u);
  EXPECT_EQ(sut->quotas.users[0].user, "alice");
  EXPECT_EQ(sut->quotas.users[0].most[kDevices], 2u);
  EXPECT_EQ(sut->quotas.users[0].most[kMemory], uint64_t{1} << 30);
  EXPECT_FALSE(sut->quotas.users[0].most[2]) << "everybody's";
  EXPECT_EQ(sut->quotas.users[1].user, "1001");
  EXPECT_EQ(sut->quotas.users[1].most[kDevices], 0u);
}

TEST(LoadQuotas, ReportEverythingThatIsWrongWithUsers) {
  const auto sut = load_daemon_text(
      "quotas:\n  devices: 9\n  users:\n    bob: 3\n    alice: {device: 2}\n    eve: {memory: lots}\n"
      "    carol: {devices: 1, devices: 2}\n    carol: {}\n",
      "npud.yaml");
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadConfig);
  for (const char* text :
       {"npud.yaml:2:12: error: quotas.devices: '9' is out of range; expected 0..8",
        "quotas.users.'bob': expected keys such as {devices: 2}, got '3'",
        "quotas.users.'alice': unknown key 'device'", "did you mean 'devices'?",
        "npud.yaml:6:19: error: quotas.users.'eve'.memory:", "quotas.users.'carol': duplicate key 'devices'",
        "quotas.users.'carol': this user is there already", "6 errors"}) {
    EXPECT_THAT(sut.error().message, HasSubstr(text));
  }
  EXPECT_THAT(load_daemon_text("quotas: {users: [alice]}\n", "f").error().message,
              HasSubstr("quotas.users: expected users by name or uid"));
}

TEST(LoadQuotas, TakeTheOlderNameOfTheCheckpointLimit) {
  const auto sut = load_daemon_text("checkpoint_limit: 5GiB\n", "npud.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->quotas.everybody[QuotaKind::kCheckpoints], uint64_t{5} << 30);
  const auto both =
      load_daemon_text("checkpoint_limit: 5GiB\nquotas: {checkpoints: 6GiB}\n", "npud.yaml");
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, HasSubstr("npud.yaml:1:19: error: checkpoint_limit: the older name"));
}

}  // namespace
}  // namespace npu::config
