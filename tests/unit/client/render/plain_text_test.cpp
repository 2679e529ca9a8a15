#include "client/render/plain_text.hpp"

#include <gtest/gtest.h>

namespace npu::client {
namespace {

TEST(PlainText, TextTabsAndUtf8StayAsTheyAre) {
  EXPECT_EQ(plain_text(""), "");
  EXPECT_EQ(plain_text("step 7\tcaf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "step 7\tcaf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(PlainText, WhatMovesTheCursorIsSpelledOut) {
  EXPECT_EQ(plain_text("\x1b[2J\r\a\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(plain_text(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(plain_text("\xc2\x9b"
                       "31m"),
            "\\xc2\\x9b31m");  // C1, one character in UTF-8
}

TEST(PlainText, BytesThatAreNoUtf8AreSpelledOut) {
  EXPECT_EQ(plain_text("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(plain_text("\xc0\xaf\xe0\x80\xaf"), "\\xc0\\xaf\\xe0\\x80\\xaf");  // overlong
  EXPECT_EQ(plain_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");                    // half a pair
  EXPECT_EQ(plain_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");           // above 10FFFF
  EXPECT_EQ(plain_text("\xe2\x82"), "\\xe2\\x82");                             // cut
}

}  // namespace
}  // namespace npu::client
