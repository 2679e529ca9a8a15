// What reaches messages and logs from untrusted names.
#include "shm/format/printable.hpp"

#include <gtest/gtest.h>

namespace npu {
namespace {

TEST(Printable, KeepsAsciiAndEscapesTheRest) {
  EXPECT_EQ(printable("layer1.0.conv1.weight"), "layer1.0.conv1.weight");
  EXPECT_EQ(printable("a\nb\x1b[31m\xc3\xa9"), "a\\x0ab\\x1b[31m\\xc3\\xa9");
}

TEST(Printable, CutsLongText) { EXPECT_EQ(printable(std::string(50, 'x'), 4), "xxxx..."); }

}  // namespace
}  // namespace npu
