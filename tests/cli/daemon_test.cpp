// The npu program together with a real npud: queries, the private daemon, a tiny job, a killed
// rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <sstream>

#include "background.hpp"
#include "cli_fixture.hpp"
#include "client/render/events.hpp"
#include "shm/base/clock.hpp"

namespace npu::cli {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
namespace fs = std::filesystem;

class DaemonTest : public CliTest {
 protected:
  [[nodiscard]] std::vector<std::string> endless_launch() {
    return {"launch", job(), "-o", "json", "--set", "train.epochs=1000"};
  }

  /// What is left in the runtime directory; the job file and the store are not meant.
  [[nodiscard]] size_t runtime_dirs() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(root_)) {
      count += entry.path().filename().string().starts_with("npu-private-") ? 1u : 0u;
    }
    return count;
  }
};

std::vector<client::Event> events_of(const std::string& text) {
  std::vector<client::Event> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto event = client::event_from_json(line);
    EXPECT_TRUE(event) << line;
    if (event) events.push_back(std::move(*event));
  }
  return events;
}

template <typename Wanted>
const Wanted* find(const std::vector<client::Event>& events) {
  for (const auto& event : events) {
    if (const auto* found = std::get_if<Wanted>(&event)) return found;
  }
  return nullptr;
}

TEST_F(DaemonTest, CheckpointListStartsAPrivateDaemonAndLeavesNothing) {
  const Outcome got = npu({"ckpt", "ls", "-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "{\"schema\":1,\"checkpoints\":[]}\n");
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(DaemonTest, CheckpointOfAnUnknownRunIsNoInput) {
  for (const char* verb : {"verify", "show"}) {
    const Outcome got = npu({"ckpt", verb, "nobody"});
    EXPECT_EQ(got.code, 66) << got.err;
    EXPECT_THAT(got.err, HasSubstr("nobody"));
  }
}

TEST_F(DaemonTest, TinyJobTrainsSaysSoInJsonAndLeavesNoProcess) {
  const Outcome got = npu({"launch", job(), "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  ASSERT_NE(find<client::StartEvent>(events), nullptr);
  EXPECT_EQ(find<client::StartEvent>(events)->world, 2);
  EXPECT_NE(find<client::StepEvent>(events), nullptr);
  EXPECT_NE(find<client::EpochEvent>(events), nullptr);
  EXPECT_NE(find<client::DoneEvent>(events), nullptr);
  EXPECT_THAT(got.err, HasSubstr("started a private npud"));
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(DaemonTest, FinishedJobCanBeListedVerifiedAndExported) {
  ASSERT_EQ(npu({"launch", job()}).code, 0);
  EXPECT_THAT(npu({"ckpt", "ls"}).out, HasSubstr("tiny"));
  EXPECT_EQ(npu({"ckpt", "verify", "tiny"}).code, 0);
  EXPECT_THAT(npu({"ckpt", "show", "tiny"}).out, HasSubstr("conv1.weight"));
  const std::string to = root_ + "/tiny.safetensors";
  const Outcome got = npu({"ckpt", "export", "tiny", "--to", to});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_GT(fs::file_size(to), 1000u);
}

TEST_F(DaemonTest, KilledRankEndsTheJobWithinASecondAndIsNamed) {
  Background launch(env_, endless_launch());
  ASSERT_THAT(launch.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
  const auto ranks = launch.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  const auto before = Clock::now();
  ASSERT_EQ(::kill(ranks[1], SIGKILL), 0);
  EXPECT_EQ(launch.child().wait().code(), 128 + SIGKILL);
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));  // a hang, not a slow machine
  const std::string rest = launch.read_until("never");
  EXPECT_THAT(rest, HasSubstr(fmt::format("\"rank\":1,\"pid\":{}", ranks[1])));
  EXPECT_THAT(rest, HasSubstr("killed by SIGKILL"));
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(DaemonTest, RunningJobIsSeenByInfoAndEndsOnInterrupt) {
  Background launch(env_, endless_launch());
  ASSERT_THAT(launch.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
  const Outcome info = npu({"info", "-o", "json"});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_THAT(
      info.out,
      MatchesRegex("\\{\"schema\":1,\"devices\":\\[.*\\],\"runs\":\\[.*\\],\"warnings\":\\[\\],"
                   "\"daemon\":\\{.*\\},\"time\":.*\\}\n"));
  EXPECT_THAT(info.out, HasSubstr("\"run\":\"tiny\",\"rank\":1,"));
  EXPECT_THAT(npu({"info"}).out, HasSubstr("BUSY"));
  ASSERT_EQ(::kill(launch.child().pid(), SIGINT), 0);
  EXPECT_EQ(launch.child().wait().code(), 80);
  EXPECT_EQ(runtime_dirs(), 0u);
}

}  // namespace
}  // namespace npu::cli
