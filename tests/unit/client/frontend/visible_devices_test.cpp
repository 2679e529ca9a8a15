#include "client/frontend/visible_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace npu::frontend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> ids(const char* list) { return parse_visible("V", list).ids; }

TEST(VisibleDevices, ReadingStopsAtTheFirstItemThatIsNoId) {
  EXPECT_THAT(ids("0,1,2"), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids("1, 2,3"), ElementsAre(1));
  EXPECT_THAT(ids("1,3,8"), ElementsAre(1, 3));
  EXPECT_THAT(ids("-1"), IsEmpty());
  EXPECT_THAT(ids("3,1"), ElementsAre(3));
  EXPECT_THAT(ids("2,2"), ElementsAre(2));
  EXPECT_THAT(ids("0,,1"), ElementsAre(0));
  EXPECT_THAT(ids("0x1"), IsEmpty());
}

TEST(VisibleDevices, WhatIsDroppedIsNamed) {
  EXPECT_EQ(parse_visible("V", "0,1").warning, "");
  EXPECT_THAT(parse_visible("V", "1, 2,3").warning, HasSubstr("V='1, 2,3' is read up to ' 2'"));
  EXPECT_THAT(parse_visible("V", "-1").warning, HasSubstr("no device is visible"));
}

TEST(VisibleDevices, BothVariablesMayAgreeOnly) {
  std::map<std::string, std::string> env;
  const auto read = [&] {
    return visible_devices([&](const char* name) -> const char* {
      const auto found = env.find(name);
      return found == env.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_FALSE(read()->has_value());
  env["ASCEND_RT_VISIBLE_DEVICES"] = "4,5";
  EXPECT_THAT((*read())->ids, ElementsAre(4, 5));
  env["NPU_VISIBLE_DEVICES"] = "4,5";
  EXPECT_TRUE(read());
  env["NPU_VISIBLE_DEVICES"] = "4";
  EXPECT_FALSE(read());
}

TEST(VisibleDevices, TheJobsDevicesCountWhatIsVisible) {
  const VisibleDevices sut{.variable = "V", .ids = {2, 5, 7}};
  EXPECT_THAT(*renumber(std::vector<int>{0, 2}, sut), ElementsAre(2, 7));
  const auto refused = renumber(std::vector<int>{0, 3, 4}, sut);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().exit, Exit::kBadConfig);
  EXPECT_THAT(refused.error().message, HasSubstr("V leaves 2,5,7 to see"));
  EXPECT_THAT(refused.error().message, HasSubstr("the job wants device 3, 4"));
  EXPECT_THAT(refused.error().message, HasSubstr("--set devices=0-2"));
}

}  // namespace
}  // namespace npu::frontend
