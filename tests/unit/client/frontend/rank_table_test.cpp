#include "client/frontend/rank_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::frontend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string device(const char* rank, const char* id) {
  return fmt::format(R"({{"device_id":"{}","device_ip":"192.168.1.8","rank_id":"{}"}})", id, rank);
}

std::string table(
    const std::string& devices,
    const std::string& head = R"("status":"completed","version":"1.0","server_count":"1")") {
  return "{" + head + R"(,"server_list":[{"server_id":"10.0.0.1","host_ip":"10.0.0.1","device":[)" +
         devices + "]}]}";
}

TEST(RankTable, RanksAreInTheOrderOfTheirIds) {
  const auto sut = parse_rank_table(table(device("1", "5") + "," + device("0", "4")), "t");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(sut->devices, ElementsAre(4, 5));
}

TEST(RankTable, VersionWithSuperPodsIsRead) {
  EXPECT_TRUE(parse_rank_table(
      table(device("0", "0"), R"("status":"completed","version":"1.2","server_count":"1")"), "t"));
}

struct Bad {
  std::string text;
  const char* words;
};

class BadTables : public testing::TestWithParam<Bad> {};

TEST_P(BadTables, AreRefusedWithTheReason) {
  const auto sut = parse_rank_table(GetParam().text, "t.json");
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kDataLoss);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message, HasSubstr("rank table 't.json'"));
  EXPECT_THAT(sut.error().message, HasSubstr(GetParam().words));
}

const std::string kOne = device("0", "0");

INSTANTIATE_TEST_SUITE_P(
    Each, BadTables,
    testing::Values(
        Bad{"", "is not a JSON object"}, Bad{"[]", "is not a JSON object"},
        Bad{"{\"status\":", "is not a JSON object"}, Bad{"{}", "has no status"},
        Bad{table(kOne, R"("status":"initializing","version":"1.0","server_count":"1")"),
            "still being written"},
        Bad{table(kOne, R"("status":"done","version":"1.0","server_count":"1")"),
            "'done' where completed was expected"},
        Bad{table(kOne, R"("status":"completed","version":"2.0","server_count":"1")"),
            "1.0 or 1.2 was expected"},
        Bad{table(kOne, R"("status":"completed","version":1.0,"server_count":"1")"),
            "version in the table that is no string"},
        Bad{table(kOne, R"("status":"completed","version":"1.0","server_count":"2")"),
            "says server_count '2' and lists 1"},
        Bad{table(kOne, R"("status":"x","status":"completed","version":"1.0","server_count":"1")"),
            "has the key 'status' twice"},
        Bad{table(""), "lists 0 devices"},
        Bad{table(kOne + "," + device("0", "1")), "gives rank_id 0 twice"},
        Bad{table(kOne + "," + device("1", "0")), "gives device_id 0 twice"},
        Bad{table(kOne + "," + device("2", "1")), "rank_id '2' where 0 to 1 was expected"},
        Bad{table(device("0", "8")), "device_id '8' where 0 to 7 was expected"},
        Bad{table(device("0", "x")), "device_id 'x'"},
        Bad{table(R"({"device_id":0,"rank_id":"0"})"), "that is no string"},
        Bad{table(R"({"device_id":"0"})"), "has no rank_id"},
        Bad{table(device("0", "1") + "," + device("1", "0")), "ascending order"},
        Bad{R"({"status":"completed","version":"1.0","server_count":"2","server_list":[{},{}]})",
            "lists 2 servers"}));

TEST(RankTable, LongServerNameIsRefused) {
  std::string text = table(kOne);
  const size_t at = text.find("10.0.0.1");
  text.replace(at, 8, std::string(64, 'a'));
  const auto sut = parse_rank_table(text, "t");
  ASSERT_FALSE(sut);
  EXPECT_THAT(sut.error().message, HasSubstr("server_id of 64 bytes"));
}

TEST(RankTable, AFileThatIsNotThereIsNoInput) {
  const auto sut = load_rank_table("/nowhere/table.json");
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kNoInput);
  EXPECT_THAT(sut.error().message, HasSubstr("rank table: "));
}

}  // namespace
}  // namespace npu::frontend
