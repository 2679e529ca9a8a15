#include "client/record/curves.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace npu::client {
namespace {

std::vector<double> column(const Table& table, const char* name) {
  std::vector<double> out;
  for (const Point& point : curve_of(table, name, 1000)) out.push_back(point.value);
  return out;
}

TEST(Curves, RowsAreReadByTheNamesOfTheHeader) {
  const Table table = parse_table("step,loss,acc1\n1,2.5,10\n2,1.5,\n");
  EXPECT_EQ(column(table, "loss"), (std::vector<double>{2.5, 1.5}));
  EXPECT_EQ(column(table, "acc1"), (std::vector<double>{10}));
  EXPECT_TRUE(curve_of(table, "nothing", 10).empty());
}

TEST(Curves, RestartTakesBackTheStepsThatCameLater) {
  const Table table = parse_table(
      "step,loss\n1,1\n2,2\n3,3\n4,4\n# restart next_step=3 timestamp=1.000\n3,30\n4,40\n"
      "# restart next_step=5 timestamp=2.000\n5,50\n");
  EXPECT_EQ(column(table, "loss"), (std::vector<double>{1, 2, 30, 40, 50}));
}

TEST(Curves, RestartFromTheBeginningTakesBackEverything) {
  const Table table = parse_table("step,loss\n1,1\nx\n# restart next_step=1 timestamp=1\n1,10\n");
  EXPECT_EQ(column(table, "loss"), (std::vector<double>{10}));
}

TEST(Curves, LinesThatDoNotParseAreSkipped) {
  const Table table = parse_table(
      "step,loss\n1,1\n2\n,,\n3,3,3\n4,four\n# a comment\n# restart next_step=\n\n5,nan\n6,6\n7,7");
  EXPECT_EQ(column(table, "loss"), (std::vector<double>{1, 6, 7}));
}

TEST(Curves, LongCurveIsThinnedToMeans) {
  std::string text = "step,loss\n";
  for (int i = 1; i <= 1000; ++i) text += fmt::format("{},{}\n", i, i % 2 == 0 ? 1 : 3);
  const Curve curve = curve_of(parse_table(text), "loss", 10);
  ASSERT_EQ(curve.size(), 10u);
  for (const Point& point : curve) EXPECT_DOUBLE_EQ(point.value, 2);
  EXPECT_DOUBLE_EQ(curve[0].step, 50.5);
}

TEST(Curves, AnyTextIsReadWithoutHarm) {
  std::mt19937 random(7);
  const std::string_view letters = "0123456789,,,\n\n.-+en# restart next_step=";
  for (int i = 0; i < 5000; ++i) {
    std::string text = i % 2 == 0 ? "step,loss\n" : "";
    for (auto n = random() % 200; n > 0; --n) text += letters[random() % letters.size()];
    const Table table = parse_table(text);
    for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size()) << text;
    (void)curve_of(table, "loss", 3);
  }
}

TEST(Curves, FolderWithoutRowsIsNotFound) {
  const auto got = read_curves("/nonexistent/run", "run");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kNotFound);
  EXPECT_THAT(got.error().message, testing::HasSubstr("/nonexistent/run"));
}

}  // namespace
}  // namespace npu::client
