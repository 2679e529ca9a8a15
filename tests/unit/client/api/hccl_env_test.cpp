#include "client/api/hccl_env.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace npu::client {
namespace {

using shm::Algorithm;
using shm::Op;
using std::chrono::seconds;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

auto getter(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Result<HcclEnv> read(const Variables& variables) { return hccl_environment(getter(variables)); }

TEST(HcclEnvironment, ExecTimeoutIsRoundedDownToStepsOf68Seconds) {
  for (const auto& [text, effective] : {std::pair("600", 544),
                                        {"1836", 1836},
                                        {"67", 68},
                                        {"1", 68},
                                        {"68", 68},
                                        {"17340", 17340},
                                        {"0", 0}}) {
    const auto env = read({{"HCCL_EXEC_TIMEOUT", text}});
    ASSERT_TRUE(env) << text;
    EXPECT_EQ(env->timeout, seconds(effective)) << text;
    EXPECT_EQ(env->remarks.size(), std::stoi(text) == effective ? 0u : 1u) << text;
  }
}

TEST(HcclEnvironment, ConnectTimeoutIsTakenAsItIs) {
  EXPECT_EQ(read({{"HCCL_CONNECT_TIMEOUT", "120"}})->join_timeout, seconds(120));
  EXPECT_EQ(read({{"HCCL_CONNECT_TIMEOUT", "7200"}})->join_timeout, seconds(7200));
  EXPECT_FALSE(read({{"HCCL_CONNECT_TIMEOUT", ""}})->join_timeout);
}

TEST(HcclEnvironment, TheLevelThatExistsChoosesTheAlgorithm) {
  const auto all = [](const char* text) {
    const auto env = read({{"HCCL_ALGO", text}});
    EXPECT_TRUE(env) << text;
    return *env->algorithm[static_cast<size_t>(Op::kAllReduce)];
  };
  EXPECT_EQ(all("level0:ring"), Algorithm::kRing);
  EXPECT_EQ(all("level0:fullmesh;level1:ring"), Algorithm::kDirect);
  EXPECT_EQ(all("level0:NA;level1:ring"), Algorithm::kRing);
  EXPECT_EQ(all("level0:NA;level1:H-D_R"), Algorithm::kAuto);
  const auto pairs = read({{"HCCL_ALGO", "others=level0:ring/allreduce=level0:fullmesh"}});
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->algorithm[static_cast<size_t>(Op::kAllReduce)], Algorithm::kDirect);
  EXPECT_EQ(pairs->algorithm[static_cast<size_t>(Op::kBroadcast)], Algorithm::kRing);
}

TEST(HcclEnvironment, OurOwnVariablesWin) {
  const Variables both = {{"HCCL_ALGO", "level0:ring"},
                          {"HCCL_EXEC_TIMEOUT", "680"},
                          {"HCCL_CONNECT_TIMEOUT", "200"},
                          {"NPU_COLL_ALGO", "direct"},
                          {"NPU_COLL_TIMEOUT", "5s"}};
  const auto env = collective_environment(getter(both));
  ASSERT_TRUE(env);
  EXPECT_EQ(env->of(Op::kAllReduce), Algorithm::kDirect);
  EXPECT_EQ(env->timeout, seconds(5));
  EXPECT_EQ(env->join_timeout, seconds(200));
  const Variables hccl = {{"HCCL_ALGO", "level0:ring"}, {"HCCL_EXEC_TIMEOUT", "680"}};
  EXPECT_EQ(collective_environment(getter(hccl))->of(Op::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(collective_environment(getter(hccl))->timeout, seconds(680));
}

TEST(HcclEnvironment, WhatIsOutOfRangeIsRefusedWithTheRange) {
  for (const auto& [name, value, expected] :
       {std::tuple("HCCL_CONNECT_TIMEOUT", "119", "120 to 7200"),
        {"HCCL_CONNECT_TIMEOUT", "7201", "120 to 7200"},
        {"HCCL_CONNECT_TIMEOUT", "2m", "120 to 7200"},
        {"HCCL_EXEC_TIMEOUT", "17341", "1 to 17340"},
        {"HCCL_EXEC_TIMEOUT", "-1", "1 to 17340"},
        {"HCCL_EXEC_TIMEOUT", "68.5", "1 to 17340"},
        {"HCCL_BUFFSIZE", "0", "1 MB or more"},
        {"HCCL_DETERMINISTIC", "yes", "false, true or strict"},
        {"HCCL_ALGO", "ring", "level0:NA;level1:ring"},
        {"HCCL_ALGO", "level0:tree", "doublering"},
        {"HCCL_ALGO", "level9:ring", "level0"},
        {"HCCL_ALGO", "level0:ring;", "level0"},
        {"HCCL_ALGO", "gossip=level0:ring", "gossip"}}) {
    const auto env = read({{name, value}});
    ASSERT_FALSE(env) << name << '=' << value;
    EXPECT_EQ(env.error().exit, Exit::kBadConfig);
    EXPECT_THAT(env.error().message, HasSubstr(std::string("environment: ") + name + "='" + value));
    EXPECT_THAT(env.error().message, HasSubstr(expected));
  }
}

TEST(HcclEnvironment, WhatHasNoEffectIsSaid) {
  EXPECT_THAT(read({{"HCCL_BUFFSIZE", "200"}})->remarks.at(0), HasSubstr("in place"));
  EXPECT_THAT(read({{"HCCL_DETERMINISTIC", "strict"}})->remarks.at(0), HasSubstr("the same bits"));
}

}  // namespace
}  // namespace npu::client
