#include "daemon/log_line.hpp"

#include <gmock/gmock.h>

#include <array>

namespace npu::daemon {
namespace {

using testing::ElementsAre;
using testing::Pair;

template <size_t N>
std::string pack(std::string_view what, const std::array<LogField, N>& fields) {
  return pack_line(what, fields);
}

TEST(LogLine, ReadsAsWordsAndKeys) {
  const std::string sut = pack("run complete", std::array{LogField("run", "a"), LogField("uid", 7)});
  EXPECT_EQ(line_text(sut), "run complete run='a' uid=7");
  EXPECT_THAT(line_fields(sut), ElementsAre(Pair("NPU_RUN", "a"), Pair("NPU_UID", "7")));
}

TEST(LogLine, HasNoFieldsWhenThereAreNone) {
  EXPECT_EQ(line_text("stopped"), "stopped");
  EXPECT_TRUE(line_fields("stopped").empty());
}

TEST(LogLine, TextsCannotEndALineAQuoteOrAField) {
  const std::string sut =
      pack("x", std::array{LogField("reason", "a'\nb\x1fuid=0\x1b[1m\xff"), LogField("uid", -1)});
  EXPECT_EQ(line_text(sut), "x reason='a\\'\\x0ab\\x1fuid=0\\x1b[1m\\xff' uid=-1");
  EXPECT_THAT(line_fields(sut),
              ElementsAre(Pair("NPU_REASON", "a'\\x0ab\\x1fuid=0\\x1b[1m\\xff"), Pair("NPU_UID", "-1")));
}

TEST(LogLine, ATextThatLooksLikeANumberStaysAText) {
  const std::string sut = pack("x", std::array{LogField("run", "7"), LogField("key", "")});
  EXPECT_EQ(line_text(sut), "x run='7' key=''");
}

TEST(LogLine, ATextThatBeginsWithAQuoteKeepsIt) {
  const std::string sut = pack("x", std::array{LogField("run", "'a")});
  EXPECT_EQ(line_text(sut), "x run='\\'a'");
  EXPECT_THAT(line_fields(sut), ElementsAre(Pair("NPU_RUN", "'a")));
}

TEST(LogLine, LongTextsAreCut) {
  const std::string sut = pack("x", std::array{LogField("reason", std::string(5000, 'a'))});
  EXPECT_LT(line_text(sut).size(), 1100u);
  EXPECT_TRUE(line_text(sut).ends_with("...'"));
}

// A line that was formatted by hand is one line all the same.
TEST(LogLine, PlainLinesAreEscapedToo) { EXPECT_EQ(line_text("a\nb\tc"), "a\\x0ab\\x09c"); }

}  // namespace
}  // namespace npu::daemon
