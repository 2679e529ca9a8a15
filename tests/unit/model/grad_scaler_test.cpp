// The loss scale against the traces that torch.cuda.amp.GradScaler gives.
#include "model/grad_scaler.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace npu::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One whole step; what step() answered.
bool run(GradScaler& sut, bool found_inf) {
  EXPECT_TRUE(sut.unscale(found_inf));
  const auto runs = sut.step();
  EXPECT_TRUE(runs);
  EXPECT_TRUE(sut.update());
  return runs && *runs;
}

struct Trace {
  std::vector<float> scales;
  std::vector<int64_t> trackers;
};

Trace trace(GradScaler& sut, const std::vector<int>& flags) {
  Trace t;
  for (const int flag : flags) {
    run(sut, flag != 0);
    t.scales.push_back(sut.scale());
    t.trackers.push_back(sut.state().growth_tracker);
  }
  return t;
}

TEST(GradScaler, GoldenTraceOfPytorch) {
  GradScaler sut(dynamic_scale(65536, 3));
  const Trace got = trace(sut, {0, 0, 0, 1, 0, 0, 0});
  EXPECT_THAT(got.scales, ElementsAre(65536, 65536, 131072, 65536, 65536, 65536, 131072));
  EXPECT_THAT(got.trackers, ElementsAre(1, 2, 0, 0, 1, 2, 0));
  EXPECT_EQ(sut.state().skipped_steps, 1);
}

TEST(GradScaler, SkipsExactlyTheStepsThatAreNotFinite) {
  GradScaler sut(dynamic_scale(65536, 2000));
  EXPECT_TRUE(run(sut, false));
  EXPECT_FALSE(run(sut, true));
  EXPECT_FALSE(run(sut, true));
  EXPECT_EQ(sut.state().skipped_steps, 2);
  EXPECT_EQ(sut.state().consecutive_skips, 2);
  EXPECT_TRUE(run(sut, false));
  EXPECT_EQ(sut.state().skipped_steps, 2);
  EXPECT_EQ(sut.state().consecutive_skips, 0);
  EXPECT_EQ(sut.scale(), 16384);
}

TEST(GradScaler, StaticScaleNeverChangesButSkipsAndCounts) {
  GradScaler sut(static_scale(1024));
  const Trace got = trace(sut, {0, 1, 1, 0, 0});
  EXPECT_THAT(got.scales, ElementsAre(1024, 1024, 1024, 1024, 1024));
  EXPECT_EQ(sut.state().skipped_steps, 2);
  EXPECT_FALSE(run(sut, true));
}

TEST(GradScaler, NeverFallsBelowOne) {
  GradScaler sut(dynamic_scale(4, 2000));
  const Trace got = trace(sut, {1, 1, 1, 1});
  EXPECT_THAT(got.scales, ElementsAre(2, 1, 1, 1));
}

TEST(GradScaler, NeverGrowsPastTheCeiling) {
  GradScaler sut(dynamic_scale(GradScaler::kMaxScale / 2, 1));
  const Trace got = trace(sut, {0, 0, 0});
  EXPECT_THAT(got.scales, ElementsAre(0x1p24F, 0x1p24F, 0x1p24F));
}

TEST(GradScaler, CeilingCutsAFactorThatIsNotAPowerOfTwo) {
  GradScalerState state = dynamic_scale(0x1p23, 1);
  state.growth_factor = 3;
  GradScaler sut(state);
  run(sut, false);
  EXPECT_EQ(sut.scale(), 0x1p24F);
}

TEST(GradScaler, GrowsOnlyToAFiniteScale) {
  GradScalerState state = dynamic_scale(0x1p100, 1);
  state.growth_factor = 0x1p40;
  GradScaler sut(state);
  run(sut, false);
  EXPECT_EQ(sut.scale(), 0x1p100F);
  EXPECT_EQ(sut.state().growth_tracker, 0);
}

TEST(GradScaler, ScaleBeyondALimitIsNotPulledTheWrongWay) {
  GradScaler low(dynamic_scale(0.25, 2000));
  run(low, true);
  EXPECT_EQ(low.scale(), 0.25F);
  GradScaler high(dynamic_scale(0x1p30, 1));
  run(high, false);
  EXPECT_EQ(high.scale(), 0x1p30F);
  run(high, true);
  EXPECT_EQ(high.scale(), 0x1p29F);
}

TEST(GradScaler, InverseIsRoundedOnceFromDouble) {
  for (const float scale : {1.0F, 3.0F, 1000.0F, 1024.0F, 65536.0F, 0x1.fffffep15F}) {
    GradScaler sut(static_scale(static_cast<double>(scale)));
    const auto got = sut.unscale(false);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, static_cast<float>(1.0 / static_cast<double>(scale))) << scale;
  }
}

TEST(GradScaler, OrderOfCallsIsKept) {
  GradScaler sut(dynamic_scale(8, 1));
  const auto early = sut.step();
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("step() where unscale() is due"));
  EXPECT_FALSE(sut.update());

  ASSERT_TRUE(sut.unscale(false));
  const auto twice = sut.unscale(false);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(twice.error().message, HasSubstr("unscale() where step() is due"));
  EXPECT_FALSE(sut.update());

  ASSERT_TRUE(sut.step());
  const auto again = sut.step();
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("step() where update() is due"));
  const auto unscaled_late = sut.unscale(true);
  EXPECT_FALSE(unscaled_late);

  ASSERT_TRUE(sut.update());
  EXPECT_FALSE(sut.update());
  EXPECT_EQ(sut.scale(), 16);  // one good step, whatever was refused meanwhile
}

TEST(GradScaler, StateContinuesExactlyAtEveryStep) {
  const std::vector<int> flags = {0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0};
  GradScaler straight(dynamic_scale(65536, 3));
  const Trace want = trace(straight, flags);
  for (size_t cut = 0; cut <= flags.size(); ++cut) {
    GradScaler first(dynamic_scale(65536, 3));
    const auto middle = flags.begin() + static_cast<ptrdiff_t>(cut);
    Trace got = trace(first, {flags.begin(), middle});
    const GradScalerState saved = first.state();
    ASSERT_TRUE(check_grad_scaler(saved));
    GradScaler second(saved);
    const Trace rest = trace(second, {middle, flags.end()});
    got.scales.insert(got.scales.end(), rest.scales.begin(), rest.scales.end());
    EXPECT_EQ(got.scales, want.scales) << "cut at " << cut;
    EXPECT_EQ(second.state(), straight.state()) << "cut at " << cut;
  }
}

TEST(GradScalerCheck, NamesTheFieldThatIsWrong) {
  const auto refused = [](auto change) {
    GradScalerState state = dynamic_scale(65536, 2000);
    change(state);
    const auto got = check_grad_scaler(state);
    return got ? std::string("accepted") : got.error().message;
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refused([](auto& s) { s.scale = 0; }), HasSubstr("scale is 0"));
  EXPECT_THAT(refused([](auto& s) { s.scale = kNan; }), HasSubstr("scale is nan"));
  EXPECT_THAT(refused([](auto& s) { s.scale = -1; }), HasSubstr("scale is -1"));
  EXPECT_THAT(refused([](auto& s) { s.growth_factor = 0.5; }), HasSubstr("growth_factor is 0.5"));
  EXPECT_THAT(refused([](auto& s) { s.backoff_factor = 0; }), HasSubstr("backoff_factor is 0"));
  EXPECT_THAT(refused([](auto& s) { s.backoff_factor = 2; }), HasSubstr("backoff_factor is 2"));
  EXPECT_THAT(refused([](auto& s) { s.growth_interval = 0; }), HasSubstr("growth_interval is 0"));
  EXPECT_THAT(refused([](auto& s) { s.growth_tracker = -1; }), HasSubstr("growth_tracker is -1"));
  EXPECT_THAT(refused([](auto& s) { s.growth_tracker = 2000; }), HasSubstr("less than 2000"));
  EXPECT_THAT(refused([](auto& s) { s.consecutive_skips = 3; }), HasSubstr("skipped_steps is 0"));
  EXPECT_EQ(refused([](auto&) {}), "accepted");
}

}  // namespace
}  // namespace npu::model
