// What a launch leaves: curves, records, a summary, event files; after a stop and a resume, too;
// and what `npu plot` makes of it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "client/launch/confirm.hpp"
#include "client/record/curves.hpp"
#include "e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class OutputTest : public E2eTest {
 protected:
  [[nodiscard]] std::string runs() const { return root_ + "/state/npu/runs"; }
  [[nodiscard]] client::RunCurves curves(const std::string& run = "tiny") const {
    auto read = client::read_curves(runs() + '/' + run, run);
    EXPECT_TRUE(read) << read.error().message;
    return read ? *read : client::RunCurves{};
  }
  [[nodiscard]] nlohmann::json summary() const {
    return nlohmann::json::parse(contents(runs() + "/tiny/summary.json"));
  }

  /// What an independent reader says of all event files, in the order of their names.
  [[nodiscard]] std::string tensorboard() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(runs() + "/tiny")) {
      if (entry.path().filename().string().starts_with("events.out.tfevents."))
        files.push_back(entry.path());
    }
    std::ranges::sort(files);
    std::string command = "/usr/bin/python3 " NPU_TFEVENTS_SCRIPT;
    for (const std::string& file : files) command += ' ' + file;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string all;
    char piece[4096];
    for (size_t n = 0; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) all.append(piece, n);
    EXPECT_EQ(::pclose(pipe), 0) << all;
    return all;
  }
};

void expect_steps(const client::Table& table, int count) {
  ASSERT_EQ(table.rows.size(), static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(table.rows[static_cast<size_t>(i)][0], i + 1);
}

TEST_F(OutputTest, LaunchLeavesARowAStepAndARowAnEpoch) {
  const client::DoneEvent end = done({"train.print_freq=5"});
  EXPECT_EQ(end.verified, true);
  expect_steps(curves().steps, 16);
  ASSERT_EQ(curves().epochs.rows.size(), 2u);
  EXPECT_EQ(curves().epochs.rows[1][1], 16);
  EXPECT_EQ(summary()["state"], "done");
  EXPECT_EQ(summary()["end"]["weights_digest"], end.weights_digest);
  EXPECT_EQ(summary()["end"]["verified"], true);
}

TEST_F(OutputTest, EveryStepIsARecordWhateverIsDisplayed) {
  const Outcome got = launch({"train.print_freq=100"});
  ASSERT_EQ(got.code, 0) << got.err;
  int steps = 0, displayed = 0;
  for (const client::Event& event : events_of(got.out)) {
    const auto* step = std::get_if<client::StepEvent>(&event);
    if (step == nullptr) continue;
    ++steps;
    displayed += step->display ? 1 : 0;
  }
  EXPECT_EQ(steps, 16);
  EXPECT_EQ(displayed, 2);
}

TEST_F(OutputTest, StopAndResumeMakeOneCurve) {
  ASSERT_EQ(done({"train.stop_after_steps=11", "output.tensorboard=true"}).steps, 11);
  ASSERT_EQ(done({"output.tensorboard=true"}).steps, 16);
  expect_steps(curves().steps, 16);
  EXPECT_EQ(curves().epochs.rows.size(), 2u);
  EXPECT_THAT(contents(runs() + "/tiny/steps.csv"), HasSubstr("\n# restart next_step=12 "));
  const std::string events = tensorboard();
  EXPECT_THAT(events, HasSubstr("session 12 1\n"));
  for (int step = 1; step <= 16; ++step) {
    EXPECT_THAT(events, HasSubstr("scalar " + std::to_string(step) + " Loss/train "));
  }
  EXPECT_THAT(events, HasSubstr("scalar 8 Accuracy/val "));
  EXPECT_THAT(events, HasSubstr("scalar 16 Loss/val "));
}

TEST_F(OutputTest, StepsAfterTheCheckpointOfACrashAreTakenBack) {
  {
    Background job(env_, this->job(), {"checkpoint.every_steps=3", "checkpoint.every_epochs=0"});
    job.read_until("\"step\":11,");
    job.kill(SIGKILL);
    job.wait();
  }
  ASSERT_TRUE(holds_within(milliseconds(5000), [&] { return processes_with(root_).empty(); }));
  const Outcome rest = launch({"checkpoint.every_steps=3", "checkpoint.every_epochs=0"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_steps(curves().steps, 16);
}

TEST_F(OutputTest, FolderOfTheJobIsTaken) {
  (void)done({"output.dir=" + root_ + "/here", "train.epochs=1"});
  EXPECT_TRUE(fs::exists(root_ + "/here/tiny/steps.csv"));
  EXPECT_FALSE(fs::exists(runs()));
}

TEST_F(OutputTest, FolderThatCannotBeMadeIsOneWarningAndTheJobGoesOn) {
  const Outcome got = launch({"output.dir=" + file("taken", "") + "/x", "train.epochs=1"});
  EXPECT_EQ(got.code, 0);
  const size_t first = got.err.find("curves are not recorded");
  EXPECT_NE(first, std::string::npos) << got.err;
  EXPECT_EQ(first, got.err.rfind("curves are not recorded"));
  EXPECT_TRUE(last<client::DoneEvent>(events_of(got.out)));
}

TEST_F(OutputTest, FullDiskIsOneWarningAndTheJobGoesOn) {
  fs::create_directories(runs() + "/tiny");
  fs::create_symlink("/dev/full", runs() + "/tiny/steps.csv");
  const Outcome got = launch({"train.epochs=1"});
  EXPECT_EQ(got.code, 0);
  EXPECT_THAT(got.err, HasSubstr("No space left on device"));
  EXPECT_TRUE(last<client::DoneEvent>(events_of(got.out)));
}

TEST_F(OutputTest, FailureIsInTheSummary) {
  Background job(env_, this->job(), {"train.epochs=1000"});
  job.read_until("\"step\":3,");
  const auto ranks = job.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(ranks[2], SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(summary()["state"], "failed");
  EXPECT_EQ(summary()["end"]["rank"], 2);
}

TEST_F(OutputTest, CheckpointThatIsDamagedIsNotConfirmed) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  client::DoneEvent end = done({"checkpoint.keep=2"});
  EXPECT_EQ(end.verified, true);
  {
    std::fstream model(end.checkpoint + "/model.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
    model.seekp(-1, std::ios::end);
    model.put('\x7f');
  }
  end.verified.reset();
  EXPECT_TRUE(client::confirm_checkpoint(daemon.socket(), "tiny", false, end));
  EXPECT_FALSE(end.verified) << "not this launch's";
  const auto confirmed = client::confirm_checkpoint(daemon.socket(), "tiny", true, end);
  ASSERT_FALSE(confirmed);
  EXPECT_EQ(confirmed.error().exit, Exit::kBadData);
  EXPECT_EQ(end.verified, false);
  EXPECT_THAT(confirmed.error().message, HasSubstr("step-8"));
}

class PlotTest : public OutputTest {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/gnuplot", X_OK) != 0) GTEST_SKIP() << "needs gnuplot (gnuplot-nox)";
  }
};

TEST_F(PlotTest, DrawsPicturesAndText) {
  (void)done({});
  (void)done({"name=other", "optimizer.lr=0.01"});
  const std::string png = root_ + "/curves.png", svg = root_ + "/curves.svg";
  const Outcome first = npu({"plot", "tiny", "--to", png});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(contents(png).starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_GT(contents(png).size(), 4000u);
  const Outcome second = npu({"plot", "tiny", runs() + "/other", "--metric", "loss", "--to", svg});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(contents(svg), HasSubstr("<svg"));
  EXPECT_THAT(contents(svg), HasSubstr("tiny train"));
  const Outcome text = npu({"plot", "tiny", "--metric", "loss,img_s", "--text"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("tiny val"));
  EXPECT_THAT(text.out, HasSubstr("images/s"));
  EXPECT_THAT(text.out, Not(HasSubstr("\f")));
}

TEST_F(OutputTest, PlotSaysWhatIsMissing) {
  const Outcome run = npu({"plot", "nothing"});
  EXPECT_EQ(run.code, static_cast<int>(Exit::kNoInput));
  EXPECT_THAT(run.err, HasSubstr("no curves in '" + runs() + "/nothing'"));
  EXPECT_EQ(npu({"plot", "nothing", "--to", "x.gif"}).code, static_cast<int>(Exit::kUsage));
  fs::create_directories(runs() + "/some");
  std::ofstream(runs() + "/some/steps.csv") << "step,loss\n1,2\n";
  const Outcome gnuplot = npu({"plot", "some", "--metric", "loss"}, {"PATH=/nonexistent"});
  if (gnuplot.code != 0) {
    EXPECT_EQ(gnuplot.code, static_cast<int>(Exit::kNoDaemon));
    EXPECT_THAT(gnuplot.err, HasSubstr("gnuplot-nox"));
  }
}

}  // namespace
}  // namespace npu::e2e
