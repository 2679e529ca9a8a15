#include "client/launch/line_splitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace npu::client {
namespace {

using testing::ElementsAre;

struct Lines {
  LineSplitter sut;
  std::vector<std::string> got;
  void feed(std::string_view bytes) {
    sut.feed(bytes, [this](std::string_view line) { got.emplace_back(line); });
  }
  void flush() {
    sut.flush([this](std::string_view line) { got.emplace_back(line); });
  }
};

TEST(LineSplitter, LinesComeOutWhole) {
  Lines lines;
  lines.feed("a\nb\r\n\nc");
  EXPECT_THAT(lines.got, ElementsAre("a", "b", ""));
}

TEST(LineSplitter, PiecesAreJoined) {
  Lines lines;
  for (const char c : std::string("hello\nworld\n")) lines.feed({&c, 1});
  EXPECT_THAT(lines.got, ElementsAre("hello", "world"));
}

TEST(LineSplitter, LastLineWithoutNewlineComesOutAtTheEnd) {
  Lines lines;
  lines.feed("tail");
  EXPECT_TRUE(lines.got.empty());
  lines.flush();
  lines.flush();
  EXPECT_THAT(lines.got, ElementsAre("tail"));
}

TEST(LineSplitter, OverlongLineComesOutInPiecesOfTheCapAndLosesNothing) {
  Lines lines;
  const std::string text = std::string(LineSplitter::kCap, 'x') + "rest\nnext\n";
  for (size_t at = 0; at < text.size(); at += 1000)
    lines.feed(std::string_view(text).substr(at, 1000));
  ASSERT_EQ(lines.got.size(), 3u);
  EXPECT_EQ(lines.got[0], std::string(LineSplitter::kCap, 'x'));
  EXPECT_EQ(lines.got[1], "rest");
  EXPECT_EQ(lines.got[2], "next");
}

TEST(LineSplitter, LineOfExactlyTheCapIsOneLine) {
  Lines lines;
  lines.feed(std::string(LineSplitter::kCap, 'x') + "\nnext\n");
  ASSERT_FALSE(lines.got.empty());
  EXPECT_EQ(lines.got.front().size(), LineSplitter::kCap);
  EXPECT_EQ(lines.got.back(), "next");
}

}  // namespace
}  // namespace npu::client
