#include "config/diagnostics.hpp"

#include <gmock/gmock.h>

#include <array>

namespace npu::config {
namespace {

using testing::HasSubstr;

TEST(Closest, FindsTyposAndSwapsButNotStrangers) {
  constexpr std::array<std::string_view, 3> kWords = {"momentum", "lr", "nesterov"};
  EXPECT_EQ(closest("momentun", kWords), "momentum");
  EXPECT_EQ(closest("rl", kWords), "lr");
  EXPECT_EQ(closest("Nesterov", kWords), "nesterov");
  EXPECT_EQ(closest("bananas", kWords), "");
  EXPECT_EQ(closest("", kWords), "");
  EXPECT_EQ(closest(std::string(10'000, 'l'), kWords), "");
}

TEST(Diagnostics, LongLinesAreShownAsAWindowAroundTheCaret) {
  const std::string line = std::string(500, 'a') + "X" + std::string(500, 'b');
  Diagnostics sut("f.yaml", line, {});
  sut.add({0, 1, 501, 1}, "here");
  const std::string text = sut.render("");
  EXPECT_THAT(text, HasSubstr("f.yaml:1:501: error: here"));
  EXPECT_LT(text.size(), 400u);
  const size_t source = text.find("  1 | ");
  const size_t caret_line = text.find("    | ", source);
  EXPECT_EQ(text[source + text.find('^', caret_line) - caret_line], 'X');
}

TEST(Diagnostics, PlacesBeyondTheTextDoNotCrash) {
  Diagnostics sut("f.yaml", "a\n", {});
  sut.add({0, 99, 99, 5}, "far");
  sut.add({0, 1, 99, 50}, "right of the end");
  sut.add({0, 0, 0, 0}, "nowhere");
  EXPECT_THAT(sut.render(""), HasSubstr("3 errors in f.yaml; nothing was started"));
}

}  // namespace
}  // namespace npu::config
