// What a job decides between two steps and two epochs, on real ranks and a real daemon: when it
// stops, what is validated, what is best, what a resumed job goes on with.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>

#include "client/api/admin.hpp"
#include "client/train/trainer.hpp"
#include "train_ranks.hpp"

namespace npu::train {
namespace {

using client::RankEnd;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What a job did: how each rank ended, and rank 0's events.
class Outcome : public client::EventSink {
 public:
  std::vector<Result<RankEnd>> ends;
  std::vector<client::Event> events;
  std::function<void(const client::Event&)> on_rank0 = {};

  void on_event(const client::Event& event) override {
    events.push_back(event);
    if (on_rank0) on_rank0(event);
  }

  template <typename E>
  [[nodiscard]] std::vector<E> all() const {
    std::vector<E> found;
    for (const client::Event& event : events) {
      if (const auto* e = std::get_if<E>(&event)) found.push_back(*e);
    }
    return found;
  }
  [[nodiscard]] client::DoneEvent done() const {
    const auto found = all<client::DoneEvent>();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? client::DoneEvent{} : found[0];
  }
  [[nodiscard]] client::StartEvent start() const {
    const auto found = all<client::StartEvent>();
    return found.empty() ? client::StartEvent{} : found[0];
  }
};

class ControlTest : public testing::Test {
 protected:
  /// 4 steps an epoch on two ranks.
  static std::string text(const std::string& name, const std::string& train,
                          const std::string& rest = "") {
    return "name: " + name +
           "\ndevices: 0-1\nseed: 7\nmodel: {arch: resnet8, num_classes: 10}\n"
           "data: {format: synthetic, train_samples: 64, val_samples: 50, image_size: 16, "
           "channels: 1, workers: 1}\n"
           "train: {batch_size: 16, print_freq: 1, " +
           train + "}\n" + rest;
  }

  void launch(const std::string& job_text, Outcome& run) {
    const config::Job job = job_of(job_text);
    run.ends.assign(static_cast<size_t>(job.world()), RankEnd::kFinished);
    client::EventSink& sink = run;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < job.world(); ++rank) {
      ranks.emplace_back([&, rank] {
        const auto i = static_cast<size_t>(rank);
        run.ends[i] = client::run_rank(job,
                                       {.socket = daemon_.socket(),
                                        .run_key = "0123456789abcdef0123456789abcdef",
                                        .rank = rank,
                                        .stop_signal = &signals_[i]},
                                       sink);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  /// A job that has to end well.
  Outcome good(const std::string& job_text) {
    Outcome run;
    launch(job_text, run);
    for (const auto& end : run.ends) {
      EXPECT_TRUE(end) << end.error().message;
      if (end) {
        EXPECT_EQ(*end, RankEnd::kFinished);
      }
    }
    return run;
  }

  std::vector<client::CheckpointInfo> checkpoints(const std::string& run) {
    auto all = client::list_checkpoints(daemon_.socket(), run, true);
    EXPECT_TRUE(all) << all.error().message;
    return all ? *all : std::vector<client::CheckpointInfo>{};
  }

  test::DaemonProcess daemon_;
  std::array<std::atomic<int>, 8> signals_ = {};
};

TEST_F(ControlTest, OneRankThatIsAskedStopsAllAfterTheSameStep) {
  const std::string straight = good(text("straight", "epochs: 3")).done().weights_digest;
  Outcome sut;
  sut.on_rank0 = [&](const client::Event& event) {
    const auto* step = std::get_if<client::StepEvent>(&event);
    if (step != nullptr && step->step == 5) signals_[1] = SIGTERM;
  };
  launch(text("stopped", "epochs: 3"), sut);
  for (const auto& end : sut.ends) {
    ASSERT_TRUE(end) << end.error().message;
    EXPECT_EQ(*end, RankEnd::kStopped);
  }
  const client::DoneEvent stopped = sut.done();
  EXPECT_TRUE(stopped.stopped);
  EXPECT_GE(stopped.steps, 6);
  EXPECT_LT(stopped.steps, 12);
  EXPECT_THAT(stopped.note, HasSubstr("stopped by a signal after step"));
  EXPECT_THAT(stopped.checkpoint, testing::EndsWith("step-" + std::to_string(stopped.steps)));

  signals_[1] = 0;
  const Outcome rest = good(text("stopped", "epochs: 3"));
  EXPECT_EQ(rest.start().resumed_step, stopped.steps + 1);
  EXPECT_EQ(rest.done().weights_digest, straight);
  EXPECT_EQ(rest.done().steps, 12);
}

TEST_F(ControlTest, StopInTheLastStepOfAnEpochValidatesLater) {
  const Outcome straight = good(text("straight", "epochs: 2"));
  Outcome sut;
  sut.on_rank0 = [&](const client::Event& event) {
    const auto* step = std::get_if<client::StepEvent>(&event);
    if (step != nullptr && step->step == 3) signals_[0] = SIGINT;
  };
  launch(text("border", "epochs: 2"), sut);
  EXPECT_EQ(sut.done().steps, 4);
  EXPECT_THAT(sut.all<client::EpochEvent>(), IsEmpty());
  signals_[0] = 0;
  const Outcome rest = good(text("border", "epochs: 2"));
  const auto got = rest.all<client::EpochEvent>(), want = straight.all<client::EpochEvent>();
  ASSERT_EQ(got.size(), 2u);
  for (size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(got[e].epoch, want[e].epoch);
    EXPECT_EQ(got[e].train_loss, want[e].train_loss);
    EXPECT_EQ(got[e].val_acc1, want[e].val_acc1);
    EXPECT_EQ(got[e].val_loss, want[e].val_loss);
  }
  EXPECT_EQ(rest.done().weights_digest, straight.done().weights_digest);
}

TEST_F(ControlTest, ValidatesEverySecondEpochAndTheLast) {
  const Outcome sut = good(text("seldom", "epochs: 5, eval_every: 2"));
  std::vector<int> validated;
  for (const auto& epoch : sut.all<client::EpochEvent>()) {
    if (epoch.val_samples > 0) validated.push_back(epoch.epoch);
    EXPECT_EQ(epoch.val_samples == 0, std::isnan(epoch.val_acc1)) << epoch.epoch;
  }
  EXPECT_THAT(validated, ElementsAre(1, 3, 4));
  EXPECT_EQ(sut.done().weights_digest, good(text("always", "epochs: 5")).done().weights_digest);
}

TEST_F(ControlTest, TargetEndsTheJobAndItStaysEnded) {
  const Outcome sut = good(text("target", "epochs: 9, target_acc1: 1"));
  const client::DoneEvent done = sut.done();
  EXPECT_LT(done.epochs, 9);
  EXPECT_GE(done.best_acc1, 1);
  EXPECT_THAT(done.note, HasSubstr("train.target_acc1 1 % is reached"));
  EXPECT_FALSE(done.stopped);
  const Outcome again = good(text("target", "epochs: 9, target_acc1: 1"));
  EXPECT_THAT(again.all<client::StepEvent>(), IsEmpty());
  EXPECT_THAT(again.done().note, HasSubstr("it reached train.target_acc1"));
  EXPECT_EQ(again.done().weights_digest, done.weights_digest);
}

TEST_F(ControlTest, FinishedJobSaysHowToTrainLonger) {
  const std::string digest = good(text("short", "epochs: 1")).done().weights_digest;
  const Outcome again = good(text("short", "epochs: 1"));
  EXPECT_THAT(again.all<client::StepEvent>(), IsEmpty());
  EXPECT_THAT(again.done().note, HasSubstr("checkpoint.resume_override: [epochs]"));
  EXPECT_EQ(again.done().weights_digest, digest);
  EXPECT_FALSE(again.done().checkpoint.empty());

  const Outcome ignored = good(text("short", "epochs: 2"));
  EXPECT_THAT(ignored.all<client::StepEvent>(), IsEmpty());
  EXPECT_THAT(ignored.start().warnings, ElementsAre(HasSubstr("train.epochs 1 -> 2 (ignored;")));

  const Outcome longer =
      good(text("short", "epochs: 2", "checkpoint: {resume_override: [epochs]}\n"));
  EXPECT_THAT(longer.start().notes, ElementsAre(HasSubstr("train.epochs 1 -> 2")));
  EXPECT_EQ(longer.done().epochs, 2);
  EXPECT_EQ(longer.done().steps, 8);
}

TEST_F(ControlTest, StartEpochBeginsThereOnce) {
  const std::string job = text("later", "epochs: 4, start_epoch: 2, stop_after_steps: 2");
  const Outcome first = good(job);
  EXPECT_EQ(first.all<client::StepEvent>().front().epoch, 2);
  const Outcome second = good(text("later", "epochs: 4, start_epoch: 2"));
  EXPECT_EQ(second.start().resumed_step, 3);
  EXPECT_EQ(second.all<client::StepEvent>().front().epoch, 2);
  EXPECT_EQ(second.all<client::StepEvent>().front().step_in_epoch, 3);
  EXPECT_EQ(second.done().steps, 8);
  // Another value moves the finished run back.
  const Outcome third = good(text("later", "epochs: 4, start_epoch: 3"));
  EXPECT_EQ(third.all<client::StepEvent>().front().epoch, 3);
  EXPECT_EQ(third.done().steps, 12);
}

TEST_F(ControlTest, EvaluationRepeatsTheDigitsOfTheTraining) {
  const Outcome trained = good(text("twice", "epochs: 2"));
  const auto epochs = trained.all<client::EpochEvent>();
  ASSERT_EQ(epochs.size(), 2u);
  for (const char* how :
       {"devices: 0-1\n", "devices: [0]\n", "devices: 0-4\ntrain: {batch_size: 15, "}) {
    std::string job = text("twice", "epochs: 2, evaluate: true", "checkpoint: {keep: 1}\n");
    if (std::string(how).find("train") != std::string::npos) {
      job.replace(job.find("train: {batch_size: 16, "), 24, std::string(how).substr(13));
    }
    job.replace(job.find("devices: 0-1\n"), 13, std::string(how).substr(0, 13));
    const Outcome sut = good(job);
    const auto got = sut.all<client::EvalEvent>();
    ASSERT_EQ(got.size(), 1u) << how;
    EXPECT_EQ(got[0].acc1, epochs[1].val_acc1) << how;
    EXPECT_EQ(got[0].acc5, epochs[1].val_acc5) << how;
    EXPECT_EQ(got[0].samples, 50) << how;
    EXPECT_EQ(got[0].epoch, 1) << how;
    EXPECT_EQ(sut.done().weights_digest, trained.done().weights_digest);
    EXPECT_THAT(sut.all<client::CheckpointEvent>(), IsEmpty());
  }
  EXPECT_EQ(checkpoints("twice").size(), 2u);
}

TEST_F(ControlTest, EvaluationWithoutWeightsIsAnError) {
  Outcome sut;
  launch(text("nothing", "epochs: 2, evaluate: true"), sut);
  ASSERT_FALSE(sut.ends[0]);
  EXPECT_EQ(sut.ends[0].error().exit, Exit::kNoInput);
  EXPECT_THAT(sut.ends[0].error().message, HasSubstr("evaluate job 'nothing': no weights"));
}

TEST_F(ControlTest, BestEpochIsSavedMarkedAndKept) {
  const Outcome sut = good(text("best", "epochs: 6", "checkpoint: {every_epochs: 6, keep: 1}\n"));
  double best = 0;
  int epoch = -1;
  for (const auto& e : sut.all<client::EpochEvent>()) {
    EXPECT_EQ(e.best, e.val_acc1 > best);
    if (!e.best) continue;
    best = e.val_acc1;
    epoch = e.epoch;
  }
  ASSERT_GE(epoch, 0);
  EXPECT_EQ(sut.done().best_epoch, epoch);
  const int64_t step = 4 * (epoch + 1);
  EXPECT_THAT(sut.done().best_checkpoint, testing::EndsWith("/step-" + std::to_string(step)));
  size_t marked = 0;
  for (const auto& c : checkpoints("best")) {
    EXPECT_EQ(c.state, "valid");
    EXPECT_EQ(c.best, c.step == step);
    marked += c.best ? 1 : 0;
  }
  EXPECT_EQ(marked, 1u);
  const Outcome evaluated =
      good(text("best", "epochs: 6, evaluate: true", "checkpoint: {resume: best}\n"));
  EXPECT_EQ(evaluated.all<client::EvalEvent>().at(0).acc1, best);
}

TEST_F(ControlTest, DivergenceNamesStepRankLossAndTensor) {
  Outcome sut;
  launch(text("wild", "epochs: 4", "optimizer: {lr: 1000, weight_decay: 1}\n"), sut);
  for (const auto& end : sut.ends) {
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().exit, Exit::kBadData);
    EXPECT_THAT(end.error().message, testing::ContainsRegex("training diverged in step [0-9]+: "));
    EXPECT_THAT(end.error().message, testing::ContainsRegex("loss (of rank [01] is|was) "));
    EXPECT_THAT(end.error().message, HasSubstr("; the gradient of '"));
  }
}

TEST_F(ControlTest, ContinueGoesOnWithWhatIsNotFinite) {
  const Outcome sut = good(
      text("wilder", "epochs: 4, nan_loss: continue", "optimizer: {lr: 1000, weight_decay: 1}\n"));
  EXPECT_EQ(sut.done().steps, 16);
  EXPECT_FALSE(std::isfinite(sut.all<client::StepEvent>().back().loss));
  EXPECT_TRUE(std::isfinite(sut.done().best_acc1));
}

TEST_F(ControlTest, ResumedJobFollowsTheScheduleOfItsCheckpoint) {
  const std::string cosine = "optimizer: {lr: 0.05}\nschedule: {kind: cosine}\n";
  const Outcome straight = good(text("old", "epochs: 3", cosine));
  good(text("new", "epochs: 3, stop_after_steps: 6", cosine));
  const std::string changed = "optimizer: {lr: 0.5}\nschedule: {kind: constant}\n";
  const Outcome rest = good(text("new", "epochs: 30", changed));
  EXPECT_THAT(rest.start().warnings,
              ElementsAre(HasSubstr("train.epochs 3 -> 30 (ignored"),
                          HasSubstr("optimizer.lr 0.05 -> 0.5 (ignored"),
                          HasSubstr("schedule.kind cosine -> constant (ignored")));
  EXPECT_EQ(rest.done().weights_digest, straight.done().weights_digest);
  EXPECT_EQ(rest.all<client::StepEvent>().back().lr, straight.all<client::StepEvent>().back().lr);
}

TEST_F(ControlTest, ResumedJobTakesTheRateThatItMayChange) {
  good(text("rate", "epochs: 3, stop_after_steps: 4", "schedule: {kind: constant}\n"));
  const Outcome rest = good(text("rate", "epochs: 3",
                                 "optimizer: {lr: 0.025}\nschedule: {kind: constant}\n"
                                 "checkpoint: {resume_override: [lr]}\n"));
  EXPECT_THAT(rest.start().notes, ElementsAre(HasSubstr("optimizer.lr 0.1 -> 0.025")));
  EXPECT_EQ(rest.all<client::StepEvent>().front().lr, 0.025);
}

TEST_F(ControlTest, NamedCheckpointIsVerifiedOrRefused) {
  const std::string path = good(text("named", "epochs: 1")).done().checkpoint;
  const auto refused = [&](const std::string& where) {
    Outcome sut;
    launch(text("other", "epochs: 2", "checkpoint: {resume: '" + where + "'}\n"), sut);
    EXPECT_FALSE(sut.ends[0]) << where;
    return sut.ends[0] ? "" : sut.ends[0].error().message;
  };
  EXPECT_THAT(refused(path + "-none"), HasSubstr("No such file or directory"));
  EXPECT_THAT(refused(path + "/state.json"), HasSubstr("not a directory"));
  const std::string model = path + "/model.safetensors";
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int byte = file.get();
  file.seekp(-1, std::ios::end).put(static_cast<char>(byte ^ 1));
  file.close();
  EXPECT_THAT(refused(path), HasSubstr("the manifest says"));
}

}  // namespace
}  // namespace npu::train
