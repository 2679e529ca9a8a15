#include "daemon/metrics/exposition.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/exposition.hpp"

namespace npu::daemon {
namespace {

using test::read_exposition;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Exposition, AFamilyWithoutSeriesIsThereByName) {
  Exposition sut;
  (void)sut.counter("npud_things_total", "Things");
  const auto got = read_exposition(sut.text());
  EXPECT_THAT(got.problems, IsEmpty());
  ASSERT_TRUE(got.families.contains("npud_things_total"));
  EXPECT_EQ(got.families.at("npud_things_total").type, "counter");
}

TEST(Exposition, EscapesWhatALabelMayHold) {
  Exposition sut;
  const std::string nasty = "a\"b\\c\nd} 1\n# TYPE x counter";
  sut.gauge("npud_thing", "Thing").add({{"run", nasty}}, 1);
  const auto got = read_exposition(sut.text());
  EXPECT_THAT(got.problems, IsEmpty()) << sut.text();
  EXPECT_EQ(got.value("npud_thing", {{"run", nasty}}), 1);
}

TEST(Exposition, WritesEveryDouble) {
  Exposition sut;
  auto family = sut.gauge("npud_thing", "Thing");
  family.add({{"k", "nan"}}, std::nan(""));
  family.add({{"k", "inf"}}, std::numeric_limits<double>::infinity());
  family.add({{"k", "small"}}, 1e-300);
  family.add({{"k", "big"}}, 9007199254740991.0);
  const auto got = read_exposition(sut.text());
  EXPECT_THAT(got.problems, IsEmpty()) << sut.text();
  EXPECT_TRUE(std::isnan(*got.value("npud_thing", {{"k", "nan"}})));
  EXPECT_TRUE(std::isinf(*got.value("npud_thing", {{"k", "inf"}})));
  EXPECT_EQ(got.value("npud_thing", {{"k", "small"}}), 1e-300);
  EXPECT_EQ(got.value("npud_thing", {{"k", "big"}}), 9007199254740991.0);
}

TEST(Exposition, AHistogramIsInSecondsAndCumulative) {
  Exposition sut;
  Histogram histogram;
  histogram.add(500);
  histogram.add(3'000'000'000);
  sut.histogram("npud_thing_seconds", "Thing").add({{"op", "x"}}, histogram);
  const auto got = read_exposition(sut.text());
  EXPECT_THAT(got.problems, IsEmpty()) << sut.text();
  EXPECT_EQ(got.value("npud_thing_seconds_count"), 2);
  EXPECT_EQ(got.value("npud_thing_seconds_sum"), 3.0000005);
  EXPECT_EQ(got.value("npud_thing_seconds_bucket", {{"le", "1e-06"}}), 1) << sut.text();
  EXPECT_EQ(got.value("npud_thing_seconds_bucket", {{"le", "+Inf"}}), 2);
}

// The reader of these tests must be able to fail.
TEST(ReadExposition, FindsWhatIsWrong) {
  const auto problems = [](const std::string& text) {
    const auto got = read_exposition(text);
    return got.problems.empty() ? std::string("none") : got.problems.front();
  };
  const std::string good = "# HELP npud_x_total X\n# TYPE npud_x_total counter\nnpud_x_total{a=\"b\"} 1\n";
  EXPECT_EQ(problems(good), "none");
  EXPECT_THAT(problems(good + "npud_x_total{a=\"b\"} 2\n"), HasSubstr("twice"));
  EXPECT_THAT(problems(good + "npud_y 2\n"), HasSubstr("is not of the family"));
  EXPECT_THAT(problems(good + "garbage\n"), HasSubstr("not understood"));
  EXPECT_THAT(problems(good + "npud_x_total{a=\"c\"} one\n"), HasSubstr("not understood"));
  EXPECT_THAT(problems("# HELP npud_x X\n# TYPE npud_x counter\n"), HasSubstr("ends in _total"));
  EXPECT_THAT(problems("# HELP npud_x_ms X\n# TYPE npud_x_ms gauge\n"), HasSubstr("base unit"));
  EXPECT_THAT(problems("# HELP npuX X\n# TYPE npuX gauge\n"), HasSubstr("rules"));
  EXPECT_THAT(problems("# HELP npud_x X\n# TYPE npud_x gauge\nnpud_x{job=\"a\"} 1\n"), HasSubstr("label 'job'"));
  EXPECT_THAT(problems("# HELP npud_x_seconds X\n# TYPE npud_x_seconds histogram\n"
                       "npud_x_seconds_bucket{le=\"1\"} 2\nnpud_x_seconds_bucket{le=\"+Inf\"} 1\n"
                       "npud_x_seconds_sum 1\nnpud_x_seconds_count 1\n"),
              HasSubstr("buckets"));
  EXPECT_THAT(problems(good.substr(0, good.size() - 1)), HasSubstr("no end"));
  EXPECT_THAT(problems(good), Not(HasSubstr("label")));
}

}  // namespace
}  // namespace npu::daemon
