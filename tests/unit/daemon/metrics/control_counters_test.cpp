#include "daemon/metrics/control_counters.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace npu::daemon {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(BusyMeter, IsThePartOfTheTimeSinceTheLastSample) {
  const auto engine = std::make_unique<EngineCounters>();
  BusyMeter sut;
  EXPECT_EQ(sut.sample(*engine, 10 * kSecond)[0], 0);
  engine->devices[0].reduce_ns.add(kSecond / 2);
  engine->devices[0].copy_ns.add(kSecond / 2);
  EXPECT_EQ(sut.sample(*engine, 10 * kSecond + 1)[0], 0) << "too soon to say";
  EXPECT_DOUBLE_EQ(sut.sample(*engine, 14 * kSecond)[0], 0.25);
  EXPECT_DOUBLE_EQ(sut.sample(*engine, 14 * kSecond + 1)[0], 0.25) << "asked again at once";
  engine->devices[0].reduce_ns.add(100 * kSecond);
  EXPECT_EQ(sut.sample(*engine, 15 * kSecond)[0], 1) << "several streams at once";
}

TEST(DetachReason, FollowsFromTheWordsOfTheServer) {
  const auto reason = [](bool detached, std::string_view how) {
    return std::string(detach_reason_name(detach_reason_of(detached, how)));
  };
  EXPECT_EQ(reason(true, "died"), "clean");
  EXPECT_EQ(reason(false, "died"), "killed");
  EXPECT_EQ(reason(false, "closed its connection"), "closed");
  EXPECT_EQ(reason(false, "was refused memory"), "refused");
  EXPECT_EQ(reason(false, "could not be given a board"), "refused");
  EXPECT_EQ(reason(false, "sent a malformed message"), "protocol");
}

}  // namespace
}  // namespace npu::daemon
