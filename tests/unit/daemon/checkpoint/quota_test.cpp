// The limit of a user's checkpoints: counted over all runs, checked before anything is written.
#include <gmock/gmock.h>

#include "daemon/checkpoint/usage.hpp"
#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class UserLimit : public StoreFixture {
 protected:
  uint64_t used(uid_t uid = kUid) {
    const UniqueFd root(::open(state_dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto bytes = bytes_of_user(FileOps::system(), root.get(), uid);
    EXPECT_TRUE(bytes) << bytes.error().message;
    return bytes.value_or(0);
  }
};

TEST_F(UserLimit, CountsWhatTheUserHasInAllRuns) {
  auto store = open_store();
  EXPECT_EQ(used(), 0u) << "a user without a directory";
  auto first = staged(1), second = staged(2);
  second->snapshot.run = "another";
  commit_ok(store, first->snapshot);
  const uint64_t one = used();
  EXPECT_GT(one, 2 * 600 * sizeof(float));
  commit_ok(store, second->snapshot);
  EXPECT_NEAR(static_cast<double>(used()), 2.0 * static_cast<double>(one), 64);
  EXPECT_EQ(used(kUid + 1), 0u);
}

TEST_F(UserLimit, RefusesBeforeAnythingIsWritten) {
  auto sut = open_store();
  auto first = staged(1), second = staged(2);
  commit_ok(sut, first->snapshot);
  second->snapshot.user_limit_bytes = used() + 1000;
  const auto refused = sut.commit(second->snapshot);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().exit, Exit::kCannotWrite);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("checkpoint step 2 of run 'resnet20': "),
                    HasSubstr("are wanted, the checkpoints of uid 1234 have"),
                    HasSubstr("the limit is"), HasSubstr("(quotas.checkpoints of npud)")));
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-1"));
  EXPECT_EQ(sut.open_newest_valid(kUid, kRun)->manifest.step, 1U);

  second->snapshot.user_limit_bytes = 3 * used();
  commit_ok(sut, second->snapshot);
}

}  // namespace
}  // namespace npu::daemon
