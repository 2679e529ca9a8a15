#include "daemon/control/quotas.hpp"

#include <gmock/gmock.h>

namespace npu::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kDevices = static_cast<size_t>(QuotaKind::kDevices);

TEST(Quotas, AreEverybodysUnlessAUserHasItsOwn) {
  config::QuotaConfig config;
  config.everybody.most[kDevices] = 4;
  config.users = {{.user = "root", .most = {8}},
                  {.user = "12345", .most = {std::nullopt, 1 << 20}}};
  const auto made = Quotas::make(config);
  ASSERT_TRUE(made) << made.error().message;
  const Quotas& sut = **made;
  EXPECT_EQ(sut.of(1000)[QuotaKind::kDevices], 4u);
  EXPECT_EQ(sut.of(0)[QuotaKind::kDevices], 8u);
  EXPECT_EQ(sut.of(12345)[QuotaKind::kDevices], 4u);
  EXPECT_EQ(sut.of(12345)[QuotaKind::kMemory], 1u << 20);
  EXPECT_EQ(Quotas().of(7)[QuotaKind::kSessions], 64u);
}

TEST(Quotas, AUserThatIsNotThereOrThereTwiceIsAnError) {
  const auto unknown = Quotas::make({.everybody = {}, .users = {{.user = "no-such-user-here"}}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().exit, Exit::kBadConfig);
  EXPECT_THAT(unknown.error().message, HasSubstr("this host has no user 'no-such-user-here'"));
  const auto twice = Quotas::make({.everybody = {}, .users = {{.user = "root"}, {.user = "0"}}});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("'0' is uid 0, which is there already"));
}

TEST(CheckQuota, SaysWantedUsedLimitAndKey) {
  Quota quota;
  EXPECT_TRUE(check_quota(quota, {QuotaKind::kDevices, 8, 100}, 1000, "x")) << "0 is no limit";
  quota.most[kDevices] = 4;
  EXPECT_TRUE(check_quota(quota, {QuotaKind::kDevices, 2, 2}, 1000, "x"));
  const auto later = check_quota(quota, {QuotaKind::kDevices, 2, 3}, 1000, "attach");
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Code::kResourceExhausted);
  EXPECT_EQ(later.error().exit, Exit::kBusy) << "it may pass when a run has ended";
  EXPECT_THAT(later.error().message, HasSubstr("attach: 2 devices are wanted, uid 1000 uses 3, the "
                                               "limit is 4 (quotas.devices of npud)"));
  const auto never = check_quota(quota, {QuotaKind::kDevices, 5, 0}, 1000, "attach");
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().exit, Exit::kPermission) << "it would come again";
  const auto bytes = check_quota(1 << 20, {QuotaKind::kMemory, 2 << 20, 0}, 1000, "attach");
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message,
              AllOf(HasSubstr("2.0 MiB of device memory are wanted"),
                    HasSubstr("the limit is 1.0 MiB (quotas.memory of npud)")));
  const uint64_t huge = ~uint64_t{0};
  EXPECT_FALSE(check_quota(10, {QuotaKind::kMemory, 1, huge}, 1000, "x")) << "sums do not wrap";
}

}  // namespace
}  // namespace npu::daemon
