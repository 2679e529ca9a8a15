// What systemd is told by a real npud: ready, status, watchdog, reload.
#include <thread>

#include "client/api/device.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/service/service_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class NotifyTest : public ServiceTest {};

TEST_F(NotifyTest, ReadyComesWhenTheSocketListensAndNotBefore) {
  start();
  EXPECT_THAT(ready_, HasSubstr("STATUS=idle, 8 devices"));
  EXPECT_TRUE(client::query_info(socket())) << "ready, but nobody answers";
}

TEST_F(NotifyTest, NothingIsSaidBeforeAnErrorOfTheStart) {
  const std::string config = configure("devices: 9\n");
  Npud sut(root(), {.args = {"--config", config}, .environment = {notify_.variable()}});
  EXPECT_EQ(sut.wait(), static_cast<int>(Exit::kBadConfig));
  EXPECT_THAT(sut.err(), HasSubstr("npud.yaml:1:10: error: devices: '9' is out of range"));
  EXPECT_FALSE(notify_.next(milliseconds(0)));
}

TEST_F(NotifyTest, StatusFollowsTheRuns) {
  start();
  const auto codes = run_threads(socket(), 3, [this](client::Device& device) {
    if (device.rank() != 0) return device.world().barrier()->wait() ? 0 : 1;
    const bool told = notify_.hears("STATUS=serving 1 run on 3 of 8 devices").has_value();
    return device.world().barrier()->wait() && told ? 0 : 1;
  });
  EXPECT_THAT(codes, testing::Each(0));
  EXPECT_TRUE(notify_.hears("STATUS=idle, 8 devices"));
}

TEST_F(NotifyTest, StatusOfManyChangesIsSentOnceASecond) {
  start();
  const uint64_t begin = now_ns();
  size_t messages = 0;
  for (int i = 0; i < 100; ++i) {
    const auto codes = run_threads(socket(), 1, [](client::Device&) { return 0; });
    ASSERT_EQ(codes[0], 0);
  }
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  while (notify_.next(milliseconds(0))) ++messages;
  EXPECT_LE(static_cast<double>(messages), seconds + 2);
}

TEST_F(NotifyTest, WatchdogIsPettedWhileNothingGoesOn) {
  start({.environment = {"WATCHDOG_USEC=400000"}});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(notify_.hears("WATCHDOG=1"));
}

TEST_F(NotifyTest, WatchdogOfAnotherProcessIsNotPetted) {
  start({.environment = {"WATCHDOG_USEC=40000", "WATCHDOG_PID=1"}});
  EXPECT_TRUE(client::query_info(socket()));
  while (const auto message = notify_.next(milliseconds(300))) {
    EXPECT_THAT(*message, Not(HasSubstr("WATCHDOG")));
  }
}

// The engine hangs inside an operation, the main loop does not: systemd must notice all the same.
TEST_F(NotifyTest, WatchdogIsNotPettedWhileAnEngineThreadIsStuck) {
  if (!has_failpoints()) GTEST_SKIP() << "this build has no failpoints";
  start({.args = {"--engine-threads", "1"},
         .environment = {"WATCHDOG_USEC=400000", "NPU_FAILPOINTS=engine.slice=sleep:60s@1"}});
  EXPECT_TRUE(notify_.hears("WATCHDOG=1"));
  std::vector<int> codes;
  std::thread ranks([&] {
    codes = run_threads(socket(), 2, [](client::Device& device) {
      auto* data = reinterpret_cast<float*>(device.arena().data());
      auto sum = device.world().all_reduce(data, data, 100'000, DType::kFloat32, ReduceOp::kSum);
      return sum && !sum->wait() ? 0 : 1;  // it never ends well
    });
  });
  EXPECT_TRUE(notify_.hears("stuck: npud-coord"));
  const Deadline silence = Deadline::after(std::chrono::seconds(1));  // ten times the pets' distance
  while (!silence.passed()) {
    const auto message = notify_.next(milliseconds(100));
    EXPECT_THAT(message.value_or(""), Not(HasSubstr("WATCHDOG")));
  }
  EXPECT_TRUE(client::query_info(socket())) << "the control server serves";
  EXPECT_TRUE(eventually([&] {
    return npud_->err().find("engine threads do not get on; the watchdog is not petted "
                             "threads='npud-coord'") != std::string::npos;
  }));
  npud_->signal(SIGKILL);
  ranks.join();
  EXPECT_THAT(codes, testing::Each(0));
}

TEST_F(NotifyTest, AGoodFileTakesEffectAsFarAsItCan) {
  start_configured("log_level: info\n");
  configure("log_level: warn\ndevices: 4\nservice: {drain_timeout: 3s}\n");
  EXPECT_THAT(reload(), HasSubstr("STATUS=idle, 8 devices; needs a restart: devices"));
  const auto info = client::query_info(socket());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->devices.size(), 8u);
  configure("log_level: info\n");
  EXPECT_THAT(reload(), Not(HasSubstr("needs a restart")));
  EXPECT_TRUE(eventually([&] {
    // The first reload is said at the new level: not at all. The second is.
    return npud_->err().find("configuration reloaded path='" + root() +
                             "/npud.yaml' changed='log_level, service.drain_timeout' "
                             "needs_restart=''") != std::string::npos;
  })) << npud_->err();
  EXPECT_EQ(count_of(npud_->err(), "configuration reloaded"), 1u);
}

TEST_F(NotifyTest, ABadFileChangesNothingAndIsSeen) {
  start_configured("log_level: info\n");
  for (const auto& [text, wrong] : std::vector<std::pair<std::string, std::string>>{
           {"devices: 9\n", "npud.yaml:1:10: error: devices: '9' is out of range"},
           {"log_level: loud\n", "npud.yaml:1:12: error: log_level: 'loud' is no level"},
           {"log_level: [\n", "npud.yaml:"}}) {
    configure(text);
    const std::string told = reload();
    EXPECT_THAT(told, HasSubstr("STATUS=idle, 8 devices; configuration not reloaded: "));
    EXPECT_THAT(told, HasSubstr(wrong));
    EXPECT_EQ(count_of(told, "\n"), 2u) << "one line a variable: " << told;
  }
  ASSERT_EQ(::unlink((root() + "/npud.yaml").c_str()), 0);
  EXPECT_THAT(reload(), HasSubstr("configuration not reloaded: "));
  EXPECT_TRUE(eventually([&] {
    return count_of(npud_->err(), "configuration not reloaded, the old one stays") == 4;
  })) << npud_->err();
  EXPECT_TRUE(client::query_info(socket())) << "it serves all the same";
  configure("log_level: info\n");
  EXPECT_THAT(reload(), Not(HasSubstr("not reloaded")));
}

TEST_F(NotifyTest, WithoutAFileThereIsNothingToReload) {
  start();
  npud_->signal(SIGHUP);
  EXPECT_TRUE(eventually([&] {
    return npud_->err().find("nothing to reload: npud was started without --config") !=
           std::string::npos;
  }));
}

TEST_F(NotifyTest, TheFileCanBeCheckedWithoutADaemon) {
  for (const auto& [text, code] : {std::pair{"devices: 4\n", Exit::kOk}, {"devise: 4\n", Exit::kBadConfig}}) {
    Npud sut(root(), {.args = {"--config", configure(text), "--check-config"}});
    EXPECT_EQ(sut.wait(), static_cast<int>(code)) << sut.err();
    EXPECT_THAT(sut.err(), code == Exit::kOk ? testing::IsEmpty() : testing::Matcher<std::string>(HasSubstr("did you mean 'devices'?")));
  }
}

}  // namespace
}  // namespace npu::test
