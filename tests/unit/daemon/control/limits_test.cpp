#include "daemon/control/limits.hpp"

#include <gmock/gmock.h>

namespace npu::daemon {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr int64_t kUser = 1000;

TEST(TokenBucket, GivesTheBurstAndThenWhatTimeBrings) {
  const auto start = Clock::time_point() + std::chrono::hours(1);
  TokenBucket sut(200, 3, start);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(sut.take(start));
  EXPECT_FALSE(sut.take(start));
  EXPECT_FALSE(sut.take(start + milliseconds(4)));
  EXPECT_TRUE(sut.take(start + milliseconds(5)));
  EXPECT_FALSE(sut.take(start + milliseconds(5)));
}

TEST(TokenBucket, HoldsNoMoreThanTheBurst) {
  const auto start = Clock::time_point() + std::chrono::hours(1);
  TokenBucket sut(200, 3, start);
  EXPECT_EQ(sut.available(start + std::chrono::hours(100)), 3);
  EXPECT_EQ(sut.available(start), 3) << "time that goes back is no time";
}

TEST(Admit, LetsInWhoeverFits) {
  EXPECT_TRUE(admit(kUser, {}));
  EXPECT_TRUE(admit(0, {.admin = true}));
  EXPECT_TRUE(admit(kUser, {.most_of_uid = 0, .sessions = 200, .of_uid = 200}));
}

TEST(Admit, NamesTheLimitThatIsReached) {
  const auto text = [](const House& house) {
    const auto admitted = admit(kUser, house);
    if (admitted) return std::string("admitted");
    EXPECT_EQ(admitted.error().code, Code::kResourceExhausted);
    EXPECT_EQ(admitted.error().exit, Exit::kBusy);
    return admitted.error().message;
  };
  EXPECT_THAT(text({.sessions = 64, .of_uid = 64}), HasSubstr("the limit of one user is 64"));
  EXPECT_THAT(text({.most_of_uid = 3, .sessions = 3, .of_uid = 3}),
              HasSubstr("1 more is wanted, uid 1000 has 3 connections, the limit of one user is 3 "
                        "(quotas.sessions of npud)"));
  EXPECT_THAT(text({.sessions = 32, .of_uid = 32, .half_open_of_uid = 32}), HasSubstr("the limit is 32"));
  EXPECT_THAT(text({.sessions = 256}), HasSubstr("256 connections, the limit is 256"));
  EXPECT_THAT(text({.fd = 960, .fd_limit = 1024}), HasSubstr("960 of its 1024 descriptors"));
  EXPECT_EQ(text({.sessions = 255, .of_uid = 63, .half_open_of_uid = 31, .fd = 959}), "admitted");
}

TEST(Admit, KeepsSessionsAndDescriptorsForTheAdmin) {
  EXPECT_FALSE(admit(kUser, {.admin = false, .sessions = 256}));
  EXPECT_TRUE(admit(kUser, {.admin = true, .sessions = 256}));
  EXPECT_FALSE(admit(0, {.admin = true, .sessions = 260}));
  EXPECT_TRUE(admit(0, {.admin = true, .fd = 980, .fd_limit = 1024}));
  EXPECT_FALSE(admit(0, {.admin = true, .fd = 1000, .fd_limit = 1024}));
}

}  // namespace
}  // namespace npu::daemon
