#include <gmock/gmock.h>

#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> devices_of(const std::string& value) {
  const auto job =
      load_job_text("name: a\ntrain: {batch_size: 840}\ndevices: " + value, "job.yaml");
  EXPECT_TRUE(job) << job.error().message;
  return job ? job->devices : std::vector<int>{};
}

TEST(Devices, AcceptListRangeAndCommaText) {
  EXPECT_THAT(devices_of("[0, 1, 2]"), ElementsAre(0, 1, 2));
  EXPECT_THAT(devices_of("0-3"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(devices_of("\"0-1\""), ElementsAre(0, 1));
  EXPECT_THAT(devices_of("0,1,2"), ElementsAre(0, 1, 2));
  EXPECT_THAT(devices_of("' 0 , 4-5 '"), ElementsAre(0, 4, 5));
  EXPECT_THAT(devices_of("3"), ElementsAre(3));
}

TEST(Devices, AreSortedSoThatRankIRunsOnTheIthSmallest) {
  EXPECT_THAT(devices_of("[5, 2, 7, 0]"), ElementsAre(0, 2, 5, 7));
}

struct BadDevices {
  const char* value;
  std::vector<const char*> expected;
};

class DevicesRefused : public testing::TestWithParam<BadDevices> {};

TEST_P(DevicesRefused, NameEachOffendingToken) {
  const std::string text = errors_of(std::string("name: a\ndevices: ") + GetParam().value);
  for (const char* part : GetParam().expected) EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(count(text, ": error: devices: "), GetParam().expected.size()) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Tokens, DevicesRefused,
    testing::Values(
        BadDevices{"0,0,1", {"device 0 is given twice"}}, BadDevices{"0,1,", {"an empty item"}},
        BadDevices{"0,,x,9", {"an empty item", "'x' is not a device id", "'9' is outside 0..7"}},
        BadDevices{"[0, a, 8, 0]",
                   {"'a' is not a device id", "'8' is outside 0..7", "device 0 is given twice"}},
        BadDevices{"[]", {"no device"}}, BadDevices{"\"\"", {"an empty item"}},
        BadDevices{"8", {"outside 0..7"}}, BadDevices{"-1", {"'-1' is outside 0..7"}},
        BadDevices{"5-2", {"the range '5-2' runs backwards"}},
        BadDevices{"0-9", {"'0-9' is outside 0..7"}},
        BadDevices{"1.5", {"'1.5' is not a device id"}},
        BadDevices{"99999999999", {"outside 0..7"}},
        BadDevices{"[[0]]", {"expected a device id, got a list"}},
        BadDevices{"{0: 1}", {"expected device ids"}}));

TEST(Devices, EightIsACountNotAnId) {
  EXPECT_THAT(errors_of("name: a\ndevices: 8"), HasSubstr("ids, not a count: write 0-7"));
}

}  // namespace
}  // namespace npu::config
