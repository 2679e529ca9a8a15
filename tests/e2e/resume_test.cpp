// A job that was stopped and launched again ends as if it had never stopped, wherever it stopped.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"

namespace npu::e2e {
namespace {

void expect_same(const client::EpochEvent& got, const client::EpochEvent& want) {
  EXPECT_EQ(got.epoch, want.epoch);
  EXPECT_EQ(got.train_loss, want.train_loss);
  EXPECT_EQ(got.train_acc1, want.train_acc1);
  EXPECT_EQ(got.val_loss, want.val_loss);
  EXPECT_EQ(got.val_acc1, want.val_acc1);
  EXPECT_EQ(got.val_acc5, want.val_acc5);
  EXPECT_EQ(got.val_samples, want.val_samples);
}

class ResumeTest : public E2eTest, public testing::WithParamInterface<int> {};

TEST_P(ResumeTest, StoppedJobEndsAsTheStraightRun) {
  const Outcome straight = launch({"name=straight"});
  ASSERT_EQ(straight.code, 0) << straight.err;
  const auto wanted = events_of(straight.out);

  const std::string stop = "train.stop_after_steps=" + std::to_string(GetParam());
  const client::DoneEvent stopped = done({stop});
  EXPECT_EQ(stopped.steps, GetParam());
  const Outcome rest = launch({});

  ASSERT_EQ(rest.code, 0) << rest.err;
  const auto events = events_of(rest.out);
  const auto start = last<client::StartEvent>(events);
  ASSERT_TRUE(start && start->resumed_step);
  EXPECT_EQ(*start->resumed_step, GetParam() + 1);
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest,
            last<client::DoneEvent>(wanted)->weights_digest);
  EXPECT_EQ(last<client::DoneEvent>(events)->best_acc1, last<client::DoneEvent>(wanted)->best_acc1);
  ASSERT_TRUE(last<client::EpochEvent>(events) && last<client::EpochEvent>(wanted));
  expect_same(*last<client::EpochEvent>(events), *last<client::EpochEvent>(wanted));
}

// 8 steps an epoch: inside the first, at the border, inside the last, one before the end.
INSTANTIATE_TEST_SUITE_P(AfterStep, ResumeTest, testing::Values(3, 8, 11, 15),
                         testing::PrintToStringParamName());

/// Recipes that keep more between two steps than weights and momentum.
struct Recipe {
  const char* name;
  std::vector<std::string> sets;
};
void PrintTo(const Recipe& recipe, std::ostream* os) { *os << recipe.name; }

class RecipeResumeTest : public E2eTest, public testing::WithParamInterface<Recipe> {};

TEST_P(RecipeResumeTest, ThreeStepsAndTheRestAreTheStraightRun) {
  std::vector<std::string> sets = GetParam().sets;
  sets.insert(sets.end(), {"name=straight", "train.epochs=1"});
  const Outcome straight = launch(sets);
  ASSERT_EQ(straight.code, 0) << straight.err;
  const auto wanted = events_of(straight.out);

  sets[sets.size() - 2] = "name=stopped";
  sets.emplace_back("train.stop_after_steps=3");
  ASSERT_EQ(done(sets).steps, 3);
  sets.pop_back();
  const Outcome rest = launch(sets);

  ASSERT_EQ(rest.code, 0) << rest.err;
  const auto events = events_of(rest.out);
  EXPECT_EQ(last<client::StartEvent>(events)->resumed_step, 4);
  EXPECT_EQ(last<client::DoneEvent>(events)->steps, 8);
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest,
            last<client::DoneEvent>(wanted)->weights_digest);
  const auto got = last<client::EpochEvent>(events), want = last<client::EpochEvent>(wanted);
  ASSERT_TRUE(got && want);
  expect_same(*got, *want);
  EXPECT_EQ(got->val_ema_loss.has_value(), std::string(GetParam().name) == "average");
  EXPECT_EQ(got->val_ema_loss, want->val_ema_loss);
  EXPECT_EQ(got->val_ema_acc1, want->val_ema_acc1);
}

INSTANTIATE_TEST_SUITE_P(
    Of, RecipeResumeTest,
    testing::Values(Recipe{"tf",
                           {"profile=tf", "schedule.kind=multistep", "schedule.milestones=[1]"}},
                    Recipe{"accumulate", {"train.accumulate=2"}},
                    Recipe{"local_buffers", {"model.bn_buffers=local"}},
                    // The mean is taken at checkpoints: equal ones.
                    Recipe{"mean_buffers", {"model.bn_buffers=mean", "checkpoint.every_steps=3"}},
                    Recipe{"sync_bn", {"model.sync_bn=true"}},
                    Recipe{"average", {"train.ema_decay=0.9"}}),
    [](const auto& test) { return std::string(test.param.name); });

class FinishedTest : public E2eTest {};

TEST_F(FinishedTest, LaunchOfAFinishedJobSaysTheSameAgain) {
  const client::DoneEvent first = done({});
  const client::DoneEvent again = done({});
  EXPECT_EQ(again.weights_digest, first.weights_digest);
  EXPECT_EQ(again.steps, first.steps);
  EXPECT_EQ(again.best_acc1, first.best_acc1);
}

}  // namespace
}  // namespace npu::e2e
