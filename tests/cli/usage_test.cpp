// Wrong input is one sentence on stderr, nothing on stdout, and the exit code that fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli_fixture.hpp"

namespace npu::cli {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

class UsageTest : public CliTest {
 protected:
  void expect_one_sentence(const Outcome& got, int code, const std::string& start) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith(start));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }
};

TEST_F(UsageTest, NothingAtAllIsAUsageError) {
  expect_one_sentence(npu({}), 64, "npu: error: A subcommand is required");
}

TEST_F(UsageTest, MistypedSubcommandGetsASuggestion) {
  expect_one_sentence(npu({"lanch"}), 64,
                      "npu: error: no subcommand 'lanch'; did you mean 'launch'?");
}

TEST_F(UsageTest, UnknownOptionNamesTheSubcommand) {
  const Outcome got = npu({"launch", job(), "--frobnicate"});
  expect_one_sentence(got, 64, "npu launch: error: ");
  EXPECT_THAT(got.err, HasSubstr("--frobnicate"));
}

TEST_F(UsageTest, MissingJobFileIsAUsageError) {
  expect_one_sentence(npu({"launch"}), 64, "npu launch: error: JOB is required");
}

TEST_F(UsageTest, UnknownOutputFormatNamesTheChoices) {
  expect_one_sentence(npu({"launch", job(), "-o", "xml"}), 64,
                      "npu launch: error: -o,--output: 'xml' is none of text, json");
}

TEST_F(UsageTest, JobThatIsNotThereIsNoInput) {
  expect_one_sentence(npu({"launch", root_ + "/none.yaml"}), 66, "npu launch: error: ");
  expect_one_sentence(npu({"train", root_ + "/none.yaml"}), 66, "npu train: error: ");
  expect_one_sentence(npu({"config", "check", root_ + "/none.yaml"}), 66,
                      "npu config check: error: ");
}

TEST_F(UsageTest, MistakesInAJobAreAllReportedWithTheirPlace) {
  const std::string path =
      file("bad.yaml", "name: x\nmodle: {arch: resnet20}\ntrain: {epochs: many}\n");
  const Outcome got = npu({"config", "check", path});
  EXPECT_EQ(got.code, 78);
  EXPECT_THAT(got.err, HasSubstr(path + ":2:1: error: "));
  EXPECT_THAT(got.err, HasSubstr(path + ":3:"));
}

TEST_F(UsageTest, OverrideThatIsWrongIsABadConfig) {
  EXPECT_EQ(npu({"launch", job(), "--set", "train.epochs=x"}).code, 78);
  EXPECT_EQ(npu({"launch", job(), "--set", "nonsense"}).code, 78);
}

TEST_F(UsageTest, OverrideTakesOneValueAndLeavesTheJobFileAlone) {
  const Outcome got = npu({"config", "print", "--set", "train.epochs=7", job()});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("epochs: 7"));
}

TEST_F(UsageTest, NoDaemonIsExit69) {
  const std::string none = root_ + "/none.sock";
  EXPECT_EQ(npu({"launch", job(), "--socket", none, "--daemon", "require"}).code, 69);
  expect_one_sentence(npu({"info", "--socket", none}), 69, "npu info: error: ");
  EXPECT_EQ(npu({"ckpt", "ls", "--socket", none}).code, 69);
}

TEST_F(UsageTest, LaunchInJsonSaysItsErrorOnStdoutToo) {
  const Outcome got = npu({"launch", job(), "--socket", root_ + "/none.sock", "-o", "json"});
  EXPECT_EQ(got.code, 69);
  EXPECT_THAT(got.out,
              MatchesRegex("\\{\"schema\":1,\"type\":\"error\",[^\n]*\"exit_code\":69[^\n]*\\}\n"));
}

TEST_F(UsageTest, TrainWithoutARankOnAJobOfTwoDevicesSaysWhatToDo) {
  const Outcome got = npu({"train", job()});
  expect_one_sentence(got, 64, "npu train: error: job 'tiny' has 2 devices but RANK is not set");
}

TEST_F(UsageTest, HalfSetEnvironmentNamesWhatIsMissing) {
  const Outcome got = npu({"train", job()}, {"RANK=1", "LOCAL_RANK=1"});
  expect_one_sentence(got, 64, "npu train: error: environment: ");
  EXPECT_THAT(got.err, HasSubstr("WORLD_SIZE"));
}

TEST_F(UsageTest, WorldOfAnotherSizeThanTheJobIsRefused) {
  expect_one_sentence(
      npu({"train", job()}, {"RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=8"}), 64,
      "npu train: error: job 'tiny' has 2 devices (0-1) but the environment says 8 ranks");
}

TEST_F(UsageTest, DeviceThatIsNotTheRanksIsRefused) {
  expect_one_sentence(npu({"train", job()}, {"RANK_ID=1", "RANK_SIZE=2", "DEVICE_ID=5"}), 64,
                      "npu train: error: environment: DEVICE_ID=5 but rank 1");
}

TEST_F(UsageTest, EventDescriptorThatIsNotOpenIsRefused) {
  EXPECT_EQ(npu({"train", job()}, {"NPU_EVENT_FD=77"}).code, 64);
  EXPECT_EQ(npu({"train", job()}, {"NPU_EVENT_FD=x"}).code, 64);
}

TEST_F(UsageTest, VersionAndHelpGoToStdoutAndSucceed) {
  EXPECT_THAT(npu({"--version"}).out, MatchesRegex("npu [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  for (const char* command : {"launch", "train", "info", "ps", "ckpt", "config"}) {
    const Outcome got = npu({command, "--help"});
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, "");
    EXPECT_THAT(got.out, HasSubstr("Examples:\n")) << command;
  }
}

TEST_F(UsageTest, EveryShippedJobPassesTheCheck) {
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NPU_JOBS_DIR)) {
    if (entry.path().extension() != ".yaml") continue;
    const Outcome got = npu({"config", "check", entry.path().string()});
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(got.out, HasSubstr(": ok: job '" + entry.path().stem().string() + "'"));
    ++jobs;
  }
  EXPECT_GE(jobs, 6);
}

TEST_F(UsageTest, PrintedJobLoadsAgain) {
  const Outcome first = npu({"config", "print", job()});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(npu({"config", "print", file("again.yaml", first.out)}).out, first.out);
}

TEST_F(UsageTest, FullDiskOnStdoutIsAnError) {
  client::ChildSpec spec{.path = NPU_PATH, .argv = {"npu", "config", "schema"}, .env = env_};
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  spec.stdout_fd = full.get();
  auto child = client::Child::start(spec);
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait().code(), 73);
}

}  // namespace
}  // namespace npu::cli
