#include "client/api/rank_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace npu::client {
namespace {

using testing::HasSubstr;

Result<std::optional<RankPlace>> read(const std::map<std::string, std::string>& env) {
  return rank_from_environment([&](const char* name) {
    const auto found = env.find(name);
    return found == env.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankFromEnvironment, EmptyEnvironmentIsNoRank) {
  const auto place = read({{"HOME", "/root"}});
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->has_value());
}

TEST(RankFromEnvironment, TorchrunWordsAreRead) {
  const auto place = read({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "3"}});
  ASSERT_TRUE(place && place->has_value());
  EXPECT_EQ((*place)->rank, 3);
  EXPECT_EQ((*place)->world, 8);
  EXPECT_FALSE((*place)->device.has_value());
}

TEST(RankFromEnvironment, AscendWordsAreRead) {
  const auto place = read({{"RANK_ID", "1"}, {"RANK_SIZE", "2"}, {"DEVICE_ID", "5"}});
  ASSERT_TRUE(place && place->has_value());
  EXPECT_EQ((*place)->rank, 1);
  EXPECT_EQ((*place)->device, 5);
}

TEST(RankFromEnvironment, HalfSetEnvironmentNamesWhatIsMissing) {
  const auto place = read({{"RANK", "3"}});
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().exit, Exit::kUsage);
  EXPECT_THAT(place.error().message, HasSubstr("RANK is set but WORLD_SIZE, LOCAL_RANK is not"));
}

TEST(RankFromEnvironment, NonsenseIsRefusedWithNameAndRange) {
  for (const char* rank : {"", "x", "8", "-1", "3 ", "99999999999999"}) {
    const auto place = read({{"RANK", rank}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "3"}});
    ASSERT_FALSE(place) << rank;
    EXPECT_THAT(place.error().message, HasSubstr("RANK='"));
  }
}

TEST(RankFromEnvironment, FamiliesThatDisagreeAreRefused) {
  EXPECT_FALSE(read({{"RANK", "1"},
                     {"WORLD_SIZE", "2"},
                     {"LOCAL_RANK", "1"},
                     {"RANK_ID", "0"},
                     {"RANK_SIZE", "2"},
                     {"DEVICE_ID", "0"}}));
}

TEST(RankFromEnvironment, LocalRankOfAnotherHostIsRefused) {
  EXPECT_FALSE(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}));
}

}  // namespace
}  // namespace npu::client
