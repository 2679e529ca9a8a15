#include "client/frontend/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

namespace npu::frontend {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class Environment : public testing::Test {
 protected:
  ~Environment() override {
    if (!table_.empty()) ::unlink(table_.c_str());
  }

  GetEnv get() {
    return [this](const char* name) -> const char* {
      const auto found = env_.find(name);
      return found == env_.end() ? nullptr : found->second.c_str();
    };
  }

  /// RANK_TABLE_FILE of two ranks on devices 2 and 3.
  void set_table() {
    std::string name = "/tmp/npu-table-XXXXXX";
    ::close(::mkstemp(name.data()));
    table_ = name;
    std::ofstream(table_) << R"({"status":"completed","version":"1.0","server_count":"1",
      "server_list":[{"server_id":"a","device":[{"device_id":"2","rank_id":"0"},
                                                {"device_id":"3","rank_id":"1"}]}]})";
    env_["RANK_TABLE_FILE"] = table_;
  }

  std::string refusal() {
    const auto sut = launch_environment(get());
    EXPECT_FALSE(sut);
    return sut ? std::string() : sut.error().message;
  }

  std::map<std::string, std::string> env_;
  std::string table_;
};

TEST_F(Environment, NothingSetIsEveryDevice) {
  const auto sut = launch_environment(get());
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->all_devices(), "0-7");
  EXPECT_THAT(*sut->host_devices(std::vector<int>{1, 4}), ElementsAre(1, 4));
}

TEST_F(Environment, VisibleDevicesRenumber) {
  env_["ASCEND_RT_VISIBLE_DEVICES"] = "4,6,9";
  const auto sut = launch_environment(get());
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->all_devices(), "0-1");
  EXPECT_THAT(*sut->host_devices(std::vector<int>{0, 1}), ElementsAre(4, 6));
  EXPECT_THAT(sut->remarks, Contains(HasSubstr("is read up to '9'")));
}

TEST_F(Environment, RankTableSaysWhichDevices) {
  set_table();
  const auto sut = launch_environment(get());
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->all_devices(), "2,3");
  EXPECT_TRUE(sut->host_devices(std::vector<int>{2, 3}));
  const auto other = sut->host_devices(std::vector<int>{0, 1});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("use --set devices=2,3"));
}

TEST_F(Environment, TheTwoMethodsCannotBeMixed) {
  set_table();
  for (const char* name : {"RANK", "RANK_SIZE", "DEVICE_ID", "CM_CHIEF_IP"}) {
    env_[name] = "1";
    EXPECT_THAT(refusal(), HasSubstr(std::string(name) + " is set beside RANK_TABLE_FILE"));
    EXPECT_FALSE(rank_place(get()));
    env_.erase(name);
  }
  env_["ASCEND_RT_VISIBLE_DEVICES"] = "2,3";
  EXPECT_THAT(refusal(), HasSubstr("both say which devices"));
}

TEST_F(Environment, RankIdFindsItsPlaceInTheTable) {
  set_table();
  EXPECT_THAT(rank_place(get()).error().message, HasSubstr("RANK_ID is not"));
  env_["RANK_ID"] = "1";
  const auto sut = rank_place(get());
  ASSERT_TRUE(sut && sut->has_value());
  EXPECT_EQ((*sut)->rank, 1);
  EXPECT_EQ((*sut)->world, 2);
  EXPECT_EQ((*sut)->device, 3);
  env_["RANK_ID"] = "2";
  EXPECT_THAT(rank_place(get()).error().message, HasSubstr("the rank table has ranks 0 to 1"));
}

TEST_F(Environment, HalfASetOfRankVariablesNamesTheRest) {
  env_["RANK"] = "0";
  EXPECT_THAT(refusal(), HasSubstr("RANK is set but WORLD_SIZE, LOCAL_RANK is not"));
  env_ = {{"RANK_ID", "0"}, {"DEVICE_ID", "0"}};
  EXPECT_THAT(refusal(), HasSubstr("RANK_SIZE is not"));
}

TEST_F(Environment, AnotherHostOrAPlaceholderIsRefused) {
  env_["MASTER_PORT"] = "**";
  EXPECT_THAT(refusal(), HasSubstr("MASTER_PORT: '**' stands for a port of your choice"));
  env_["MASTER_PORT"] = "29500";
  EXPECT_TRUE(launch_environment(get()));
  env_["MASTER_ADDR"] = "10.1.2.3";
  EXPECT_THAT(refusal(), HasSubstr("all ranks are on this host"));
}

TEST_F(Environment, WhatHcclRoundsOrIgnoresIsSaid) {
  env_ = {{"HCCL_EXEC_TIMEOUT", "600"}, {"HCCL_BUFFSIZE", "200"}};
  const auto sut = launch_environment(get());
  ASSERT_TRUE(sut);
  EXPECT_THAT(sut->remarks, ElementsAre(HasSubstr("544 s"), HasSubstr("HCCL_BUFFSIZE")));
}

}  // namespace
}  // namespace npu::frontend
