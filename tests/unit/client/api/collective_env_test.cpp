#include "client/api/collective_env.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace npu::client {
namespace {

using shm::Algorithm;
using shm::Op;

Result<CollectiveEnv> read(const std::map<std::string, std::string>& variables) {
  return collective_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(CollectiveEnvironment, NothingSetLeavesEverythingOpen) {
  const auto env = read({{"NPU_COLL_ALGO", ""}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->of(Op::kAllReduce), Algorithm::kAuto);
  EXPECT_FALSE(env->timeout);
}

TEST(CollectiveEnvironment, OneNameIsForAllAndPairsForOne) {
  auto env = read({{"NPU_COLL_ALGO", "ring"}, {"NPU_COLL_TIMEOUT", "1500ms"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->of(Op::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(env->of(Op::kBroadcast), Algorithm::kRing);
  EXPECT_EQ(env->timeout, milliseconds(1500));
  env = read({{"NPU_COLL_ALGO", "direct,all-reduce=ring,reduce-scatter-v=auto"},
              {"NPU_COLL_TIMEOUT", "0"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->of(Op::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(env->of(Op::kBroadcast), Algorithm::kDirect);
  EXPECT_EQ(env->of(Op::kReduceScatterV), Algorithm::kAuto);
  EXPECT_EQ(env->timeout, milliseconds(0));
}

TEST(CollectiveEnvironment, NonsenseNamesVariableValueAndWhatIsAccepted) {
  for (const char* value :
       {"tree", "allreduce=ring", "all-reduce=fast", "ring,", "=", "split=ring"}) {
    const auto env = read({{"NPU_COLL_ALGO", value}});
    ASSERT_FALSE(env) << value;
    EXPECT_EQ(env.error().exit, Exit::kBadConfig);
    EXPECT_NE(env.error().message.find(std::string("NPU_COLL_ALGO='") + value + "'"),
              std::string::npos)
        << env.error().message;
  }
  for (const char* value : {"soon", "-1", "5 parsecs", "inf"}) {
    const auto env = read({{"NPU_COLL_TIMEOUT", value}});
    ASSERT_FALSE(env) << value;
    EXPECT_NE(env.error().message.find("NPU_COLL_TIMEOUT"), std::string::npos);
  }
}

}  // namespace
}  // namespace npu::client
