#include "daemon/control/authority.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>

namespace npu::daemon {
namespace {

constexpr Rights kUser{.uid = 1000, .admin = false}, kAdmin{.uid = 1001, .admin = true};

TEST(Authority, OfAUserEndsAtItsOwnRuns) {
  for (const Action action : {Action::kAttach, Action::kReadStatus, Action::kEndRun}) {
    EXPECT_TRUE(allowed(kUser, action, 1000));
    EXPECT_FALSE(allowed(kUser, action, 1001));
    EXPECT_FALSE(allowed(kUser, action, 0));
  }
  EXPECT_FALSE(allowed(kUser, Action::kAdminister, 1000));
}

TEST(Authority, OfAnAdminIsToSeeAndEndAndNotToJoin) {
  EXPECT_TRUE(allowed(kAdmin, Action::kReadStatus, 1000));
  EXPECT_TRUE(allowed(kAdmin, Action::kEndRun, 1000));
  EXPECT_TRUE(allowed(kAdmin, Action::kAdminister, -1));
  EXPECT_FALSE(allowed(kAdmin, Action::kAttach, 1000));
}

TEST(Authority, AdminsAreRootTheDaemonsUserAndTheGroup) {
  const std::array<gid_t, 2> groups = {100, 60};
  const auto stranger = static_cast<int64_t>(::geteuid()) + 1;
  EXPECT_TRUE(is_admin(0, {}, std::nullopt));
  EXPECT_TRUE(is_admin(::geteuid(), {}, std::nullopt));
  EXPECT_FALSE(is_admin(stranger, groups, std::nullopt));
  EXPECT_FALSE(is_admin(stranger, groups, 61));
  EXPECT_TRUE(is_admin(stranger, groups, 60));
}

TEST(Authority, TheGroupIsLookedUpByName) {
  const auto none = find_group("");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const auto root = find_group("root");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(**root, 0u);
  const auto unknown = find_group("no-such-group-here");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().exit, Exit::kBadConfig);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("no group 'no-such-group-here'"));
}

}  // namespace
}  // namespace npu::daemon
