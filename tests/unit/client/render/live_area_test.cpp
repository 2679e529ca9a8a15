#include "client/render/live_area.hpp"

#include <gtest/gtest.h>

#include "tests/support/screen.hpp"

namespace npu::client {
namespace {

TEST(LiveArea, DrawsOverWhatIsThere) {
  test::Screen screen(20, 10);
  LiveArea sut(false);
  screen.feed("before\r\n");
  screen.feed(sut.draw({"one", "two", "three"}, 20));
  screen.feed(sut.draw({"ONE and more", "x"}, 20));
  EXPECT_EQ(screen.text(), "before\nONE and more\nx\n");
  EXPECT_EQ(screen.row(), 2u);
}

TEST(LiveArea, EraseLeavesTheCursorWhereItBegan) {
  test::Screen screen(20, 10);
  LiveArea sut(true);
  screen.feed("before\r\n");
  screen.feed(sut.draw({"one", "two"}, 20));
  EXPECT_TRUE(sut.on_screen());
  screen.feed(sut.erase(20));
  EXPECT_FALSE(sut.on_screen());
  EXPECT_EQ(sut.erase(20), "");
  EXPECT_EQ(screen.text(), "before\n");
  EXPECT_EQ(screen.row(), 1u);
  EXPECT_EQ(screen.unknown(), "");
}

TEST(LiveArea, StaysInPlaceAtTheBottomOfTheWindow) {
  test::Screen screen(20, 3);
  LiveArea sut(false);
  screen.feed("a\r\nb\r\nc\r\n");
  for (int i = 0; i < 4; ++i) screen.feed(sut.draw({"one", "two"}, 20));
  screen.feed(sut.erase(20));
  EXPECT_EQ(screen.text(), "a\nb\nc\n");
}

TEST(LiveArea, WindowThatBecameNarrowerHasWrappedLinesToErase) {
  LiveArea sut(false);
  (void)sut.draw({std::string(19, 'x'), std::string(5, 'y')}, 20);
  // 19 characters take two rows of 10, 5 take one.
  EXPECT_EQ(sut.erase(10), "\r\x1b[2A\x1b[J");
}

TEST(LiveArea, NoLinesIsNothingOnTheScreen) {
  LiveArea sut(false);
  EXPECT_EQ(sut.draw({}, 80), "");
  (void)sut.draw({"one"}, 80);
  EXPECT_EQ(sut.draw({}, 80), "\r\x1b[J");
}

}  // namespace
}  // namespace npu::client
