// A job is stopped by real signals and goes on as if it had not been; its weights are evaluated,
// its best checkpoint is found.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"

namespace npu::e2e {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class StopTest : public E2eTest, public testing::WithParamInterface<int> {
 protected:
  // 64 steps an epoch: a signal after a few of them comes long before the end.
  const std::vector<std::string> longer_ = {"data.train_samples=2048", "train.epochs=2"};

  std::vector<std::string> named(const std::string& name) const {
    std::vector<std::string> sets = longer_;
    sets.push_back("name=" + name);
    return sets;
  }

  /// The job launched again ends as the straight one.
  void expect_straight_end(const client::DoneEvent& stopped) {
    EXPECT_TRUE(stopped.stopped);
    EXPECT_LT(stopped.steps, 128);
    EXPECT_TRUE(std::filesystem::is_directory(stopped.checkpoint)) << stopped.checkpoint;
    const Outcome rest = launch(named("stopped"));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(last<client::StartEvent>(events_of(rest.out))->resumed_step, stopped.steps + 1);
    EXPECT_EQ(last<client::DoneEvent>(events_of(rest.out))->weights_digest,
              done(named("straight")).weights_digest);
  }
};

TEST_P(StopTest, SignalToTheLauncherSavesAndExits80) {
  Background running(env_, job("stopped"), named("stopped"));
  std::string out = running.read_until("\"step\":5,");
  ASSERT_THAT(out, HasSubstr("\"step\":5,"));
  const auto ranks = running.children("train");
  running.kill(GetParam());
  out += running.read_until("nothing of this kind");
  EXPECT_EQ(running.wait(), 80);
  EXPECT_THAT(running.err(), HasSubstr("4 ranks finish their step and save"));
  EXPECT_THAT(running.err(), HasSubstr("launch the job again to go on"));
  EXPECT_TRUE(holds_within(milliseconds(2000), [&] { return std::ranges::all_of(ranks, gone); }));
  const auto end = last<client::DoneEvent>(events_of(out));
  ASSERT_TRUE(end);
  expect_straight_end(*end);
}

INSTANTIATE_TEST_SUITE_P(By, StopTest, testing::Values(SIGTERM, SIGINT),
                         [](const auto& test) { return test.param == SIGTERM ? "Term" : "Int"; });

using OneRankTest = StopTest;

TEST_F(OneRankTest, SignalToOneRankStopsTheWholeJob) {
  Background running(env_, job("stopped"), named("stopped"));
  std::string out = running.read_until("\"step\":5,");
  const auto ranks = running.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(ranks[2], SIGTERM);
  out += running.read_until("nothing of this kind");
  EXPECT_EQ(running.wait(), 80);
  EXPECT_THAT(running.err(), testing::Not(HasSubstr("failed first")));
  const auto end = last<client::DoneEvent>(events_of(out));
  ASSERT_TRUE(end);
  expect_straight_end(*end);
}

// As a service manager does it: launcher, ranks and private daemon together.
TEST_F(OneRankTest, SignalToEveryProcessOfTheJobIsOneRequest) {
  Background running(env_, job("stopped"), named("stopped"));
  std::string out = running.read_until("\"step\":5,");
  auto processes = running.children("train");
  const auto daemons = running.children("npud");
  ASSERT_EQ(processes.size(), 4u);
  ASSERT_EQ(daemons.size(), 1u);
  processes.insert(processes.begin(), {daemons[0], running.pid()});
  for (const pid_t pid : processes) ::kill(pid, SIGTERM);
  out += running.read_until("nothing of this kind");
  EXPECT_EQ(running.wait(), 80) << running.err();
  const auto end = last<client::DoneEvent>(events_of(out));
  ASSERT_TRUE(end);
  expect_straight_end(*end);
}

TEST_F(OneRankTest, SignalAroundTheFirstStepEndsTheJob) {
  // Whichever comes first: nothing hangs, nothing is left.
  Background running(env_, job("early"), {"train.epochs=100000"});
  ASSERT_TRUE(
      holds_within(milliseconds(10000), [&] { return running.children("train").size() == 4; }));
  running.kill(SIGTERM);
  const int code = running.wait();
  EXPECT_TRUE(code == 128 + SIGTERM || code == 80) << code;
}

// Ranks whose daemon does not answer cannot finish their step. (A stopped rank can: the launcher
// lets it continue.)
TEST_F(OneRankTest, BlockedRanksAreEndedByTheSecondSignal) {
  Background running(env_, job("blocked"), {"train.epochs=100000", "collectives.timeout=0"});
  ASSERT_THAT(running.read_until("\"step\":5,"), HasSubstr("\"step\":5,"));
  const auto ranks = running.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(running.children("npud").at(0), SIGSTOP);
  running.kill(SIGTERM);
  ASSERT_TRUE(holds_within(milliseconds(10000), [&] {
    return running.err().find("again to end them at once") != std::string::npos;
  }));
  EXPECT_TRUE(running.running());
  running.kill(SIGTERM);
  EXPECT_EQ(running.wait(), 128 + SIGTERM);
  EXPECT_TRUE(holds_within(milliseconds(2000), [&] { return std::ranges::all_of(ranks, gone); }));
}

TEST_F(OneRankTest, BlockedRanksAreEndedAfterTheGrace) {
  Background running(env_, job("blocked"), {"train.epochs=100000", "collectives.timeout=0"},
                     {"--grace", "0.5"});
  ASSERT_THAT(running.read_until("\"step\":5,"), HasSubstr("\"step\":5,"));
  const auto ranks = running.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(running.children("npud").at(0), SIGSTOP);
  running.kill(SIGTERM);
  EXPECT_EQ(running.wait(), 128 + SIGTERM);
  EXPECT_TRUE(holds_within(milliseconds(2000), [&] { return std::ranges::all_of(ranks, gone); }));
}

class EvalTest : public E2eTest {
 protected:
  Outcome eval(std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", job()});
    return npu(more);
  }

  /// "Acc@1 12.000 Acc@5 52.000" of main.py's line.
  static std::string accuracy(const std::string& text) {
    const size_t at = text.rfind(" *   Acc@1 ");
    if (at == std::string::npos) return "none in: " + text;
    return text.substr(at + 5, text.find('\n', at) - at - 5);
  }
};

TEST_F(EvalTest, PrintsTheLineOfTheTraining) {
  const Outcome trained = npu({"launch", job()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string want = accuracy(trained.out);
  for (const std::vector<std::string>& how : {std::vector<std::string>{},
                                              {"--set", "devices=0"},
                                              {"--set", "devices=0-1"},
                                              {"--set", "devices=0-7"},
                                              {"--checkpoint", "latest"},
                                              {"--set", "train.batch_size=20"}}) {
    const Outcome got = eval(how);
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(accuracy(got.out), want);
    EXPECT_THAT(got.out, HasSubstr("evaluated 100 images with the weights of"));
    EXPECT_THAT(got.out, testing::Not(HasSubstr("Epoch: [")));
  }
  const Outcome json = eval({"-o", "json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto events = events_of(json.out);
  ASSERT_TRUE(last<client::EvalEvent>(events));
  EXPECT_EQ(last<client::EvalEvent>(events)->samples, 100);
  EXPECT_TRUE(std::holds_alternative<client::DoneEvent>(events.back()));
}

TEST_F(EvalTest, TakesTheBestTheWeightsOrADirectory) {
  const Outcome trained = launch({"checkpoint.keep=1", "train.epochs=4"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto events = events_of(trained.out);
  const client::DoneEvent done = *last<client::DoneEvent>(events);
  const Outcome best = eval({"--checkpoint", "best", "-o", "json"});
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_EQ(last<client::EvalEvent>(events_of(best.out))->acc1, done.best_acc1);
  const Outcome directory = eval({"--checkpoint", done.checkpoint, "-o", "json"});
  ASSERT_EQ(directory.code, 0) << directory.err;
  EXPECT_EQ(last<client::EvalEvent>(events_of(directory.out))->acc1, done.acc1);

  const std::string file = root_ + "/it's best.safetensors";
  ASSERT_EQ(npu({"ckpt", "export", "tiny", "--best", "--to", file}).code, 0);
  const Outcome weights = eval({"--weights", file, "-o", "json", "--set", "name=another"});
  ASSERT_EQ(weights.code, 0) << weights.err;
  EXPECT_EQ(last<client::EvalEvent>(events_of(weights.out))->acc1, done.best_acc1);
  EXPECT_EQ(last<client::EvalEvent>(events_of(weights.out))->epoch, -1);

  EXPECT_THAT(npu({"ckpt", "ls", "tiny"}).out,
              ContainsRegex(std::to_string(8 * (done.best_epoch + 1)) + "[* ][+]"));
}

TEST_F(EvalTest, WithoutWeightsIsNoInput) {
  const Outcome got = eval({});
  EXPECT_EQ(got.code, 66);
  EXPECT_THAT(got.err, HasSubstr("evaluate job 'tiny': no weights"));
  EXPECT_EQ(eval({"--checkpoint", "best"}).code, 66);
  EXPECT_EQ(eval({"--checkpoint", "none/step-3"}).code, 66);
  EXPECT_NE(eval({"--weights", "none.safetensors"}).code, 0);
  EXPECT_EQ(eval({"--weights", "a", "--checkpoint", "best"}).code, 64);
}

}  // namespace
}  // namespace npu::e2e
