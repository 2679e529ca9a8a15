// Which directory names are checkpoints, leftovers or foreign.
#include "daemon/checkpoint/names.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

TEST(Names, StepsRoundTrip) {
  for (const uint64_t step : {uint64_t{0}, uint64_t{40}, UINT64_MAX}) {
    EXPECT_EQ(parse_step_name(step_name(step)), step);
  }
}

TEST(Names, OnlyTheCanonicalStepNameCounts) {
  for (const char* name : {"step-", "step-01", "step-+1", "step--1", "step-1 ", "Step-1", "step-1x",
                           "step-18446744073709551616", "1", "step-1.tmp-0000000000000001"}) {
    EXPECT_EQ(parse_step_name(name), std::nullopt) << name;
  }
}

TEST(Names, LeftoversAreToldFromForeignNames) {
  EXPECT_TRUE(is_temp_name(temp_name("step-7", 255)));
  EXPECT_TRUE(is_temp_name("LATEST.tmp-00000000000000ff"));
  for (const char* name : {"step-7", "notes.tmp-00000000000000ff", "step-7.tmp-", "step-7.tmp-ff",
                           "step-7.old-00000000000000ff", "LATEST"}) {
    EXPECT_FALSE(is_temp_name(name)) << name;
  }
  EXPECT_EQ(parse_aside_name(aside_name("step-7", 1)), "step-7");
  EXPECT_EQ(parse_aside_name("notes.old-0000000000000001"), std::nullopt);
}

TEST(Names, UidsAreCanonicalDecimals) {
  EXPECT_TRUE(is_uid_name("0"));
  EXPECT_TRUE(is_uid_name("4294967295"));
  for (const char* name : {"", "01", "-1", "4294967296", "root"}) EXPECT_FALSE(is_uid_name(name));
}

}  // namespace
}  // namespace npu::daemon
