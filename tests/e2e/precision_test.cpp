// Mixed precision as a user has it: scales that move, steps that are skipped, and a resume that
// cannot be told from a straight run.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"

namespace npu::e2e {
namespace {

using client::OverflowEvent;
using client::StepEvent;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Wanted>
std::vector<Wanted> all(const std::vector<client::Event>& events) {
  std::vector<Wanted> found;
  for (const client::Event& event : events) {
    if (const auto* one = std::get_if<Wanted>(&event)) found.push_back(*one);
  }
  return found;
}

class PrecisionTest : public E2eTest {
 protected:
  std::vector<client::Event> events(const std::vector<std::string>& sets) {
    const Outcome got = launch(sets);
    EXPECT_EQ(got.code, 0) << got.err;
    return events_of(got.out);
  }
};

// Overflows first, grows every second good step later: the scale moves on both sides of the stop.
const std::vector<std::string> kDynamic = {"precision.amp=true", "precision.loss_scale=dynamic",
                                           "precision.init_scale=16777216",
                                           "precision.growth_interval=2"};

std::vector<std::string> with(std::vector<std::string> sets, const std::string& more) {
  sets.push_back(more);
  return sets;
}

TEST_F(PrecisionTest, DynamicScaleGoesDownAndUpAndSkipsAreCounted) {
  const auto got = events(with(kDynamic, "train.epochs=1"));
  const auto steps = all<StepEvent>(got);
  const auto overflows = all<OverflowEvent>(got);
  const auto end = last<client::DoneEvent>(got);
  ASSERT_TRUE(end);
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_EQ(steps.front().scale, 16777216);
  ASSERT_FALSE(overflows.empty());
  EXPECT_EQ(overflows.front().step, 1);
  EXPECT_EQ(overflows.front().scale, 8388608);
  EXPECT_EQ(end->skipped_steps, static_cast<int64_t>(overflows.size()));
  EXPECT_EQ(end->steps, 8) << "skipped steps count as steps";
}

TEST_F(PrecisionTest, ResumedRunHasTheBitsAndScalesOfAStraightOne) {
  for (const char* dtype : {"fp16", "bf16"}) {
    auto sets = with(kDynamic, std::string("precision.dtype=") + dtype);
    sets.emplace_back("collectives.allreduce_dtype=fp16");
    sets.emplace_back("optimizer.clip_grad_norm=1");
    const std::string run = std::string("name=") + dtype;
    const auto straight =
        events(with(with(sets, std::string("name=straight-") + dtype), "train.stop_after_steps=6"));
    const auto first = events(with(with(sets, run), "train.stop_after_steps=3"));
    const auto second = events(with(with(sets, run), "train.stop_after_steps=6"));

    const auto start = last<client::StartEvent>(second);
    ASSERT_TRUE(start && start->resumed_step);
    EXPECT_EQ(*start->resumed_step, 4);
    EXPECT_THAT(start->warnings, ElementsAre());
    EXPECT_EQ(start->precision, std::string(dtype) + ", dynamic loss scale from 16777216");
    const auto wanted = last<client::DoneEvent>(straight);
    const auto end = last<client::DoneEvent>(second);
    ASSERT_TRUE(wanted && end);
    EXPECT_EQ(end->weights_digest, wanted->weights_digest);
    EXPECT_EQ(end->skipped_steps, wanted->skipped_steps);
    std::vector<double> scales, wanted_scales;
    for (const auto& step : all<StepEvent>(straight)) wanted_scales.push_back(step.scale);
    for (const auto& step : all<StepEvent>(first)) scales.push_back(step.scale);
    for (const auto& step : all<StepEvent>(second)) scales.push_back(step.scale);
    EXPECT_EQ(scales, wanted_scales);
  }
}

TEST_F(PrecisionTest, ResumeWithAnotherPrecisionIsTold) {
  events({"train.stop_after_steps=2"});
  const auto got = events({"precision.amp=true", "train.stop_after_steps=4"});
  const auto start = last<client::StartEvent>(got);
  ASSERT_TRUE(start);
  EXPECT_THAT(start->warnings,
              ElementsAre(HasSubstr("precision.amp=false, the job says true"),
                          HasSubstr("no loss scaler; starting with loss scale 1024")));
  EXPECT_EQ(last<StepEvent>(got)->scale, 1024);
}

TEST_F(PrecisionTest, SkipsInARowEndTheJobAsBadData) {
  const Outcome got =
      launch({"precision.amp=true", "precision.loss_scale=16777216", "precision.max_skips=3"});
  EXPECT_EQ(got.code, 65);
  EXPECT_THAT(got.err,
              HasSubstr("gradients non-finite for 3 consecutive steps: the gradient of '"));
  const auto seen = events_of(got.out);
  EXPECT_EQ(all<OverflowEvent>(seen).size(), 2u) << "the third ends the job";
}

TEST_F(PrecisionTest, StepsWithoutAmpHaveScaleOne) {
  const auto got = events({"train.stop_after_steps=2"});
  for (const auto& step : all<StepEvent>(got)) EXPECT_EQ(step.scale, 1);
  EXPECT_EQ(last<client::StartEvent>(got)->precision, "fp32");
}

}  // namespace
}  // namespace npu::e2e
