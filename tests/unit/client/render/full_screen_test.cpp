#include "client/render/full_screen.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace npu::client {
namespace {

TEST(FullScreen, FrameReplacesWhatIsThereLineByLine) {
  EXPECT_EQ(full_screen_frame("ab\ncd\n", {.columns = 10, .rows = 5}),
            "\x1b[Hab\x1b[K\r\ncd\x1b[K\x1b[J");
}

TEST(FullScreen, LinesAreCutToTheWidthAndColoursTakeNoColumn) {
  EXPECT_EQ(full_screen_frame("abcdef", {.columns = 3, .rows = 5}), "\x1b[Habc\x1b[K\x1b[J");
  EXPECT_EQ(full_screen_frame("a\x1b[31mbcdef", {.columns = 3, .rows = 5}),
            "\x1b[Ha\x1b[31mbc\x1b[0m\x1b[K\x1b[J");
  EXPECT_EQ(full_screen_frame("\xc3\xa9\xc3\xa9\xc3\xa9", {.columns = 2, .rows = 5}),
            "\x1b[H\xc3\xa9\xc3\xa9\x1b[K\x1b[J");
  EXPECT_EQ(full_screen_frame("a\x1b[31", {.columns = 3, .rows = 5}),
            "\x1b[Ha\x1b[31\x1b[0m\x1b[K\x1b[J");
}

TEST(FullScreen, WhatDoesNotFitIsCounted) {
  EXPECT_EQ(full_screen_frame("a\nb\nc\nd\n", {.columns = 20, .rows = 3}),
            "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n... 2 more lines\x1b[K\x1b[J");
  EXPECT_EQ(full_screen_frame("a\nb\n", {.columns = 20, .rows = 1}),
            "\x1b[H... 2 more lines\x1b[K\x1b[J");
}

class ColourTest : public testing::Test {
 protected:
  ~ColourTest() override {
    ::unsetenv("NPU_COLOR");
    ::unsetenv("NO_COLOR");
  }
};

TEST_F(ColourTest, PipeHasNoColourUnlessItIsAskedFor) {
  const int pipe = 0;  // of the test runner: no terminal, or NPU_COLOR decides
  ::setenv("NPU_COLOR", "never", 1);
  EXPECT_FALSE(terminal_traits(pipe).colour);
  ::setenv("NPU_COLOR", "always", 1);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(terminal_traits(pipe).colour);
}

}  // namespace
}  // namespace npu::client
