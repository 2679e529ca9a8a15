#include "shm/base/units.hpp"

#include <gtest/gtest.h>

#include "shm/base/dtype.hpp"

namespace npu {
namespace {

TEST(ParseBytes, AcceptsBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_bytes("512"), 512u);
  EXPECT_EQ(*parse_bytes("4MiB"), 4u << 20);
  EXPECT_EQ(*parse_bytes("4M"), 4u << 20);
  EXPECT_EQ(*parse_bytes("1.5K"), 1536u);
  EXPECT_EQ(*parse_bytes("2 GB"), 2'000'000'000u);
}

TEST(ParseBytes, NamesTheBadText) {
  for (const char* text : {"", "-1", "4 potatoes", "inf", "nan", "1e30"}) {
    const auto sut = parse_bytes(text);
    ASSERT_FALSE(sut) << text;
    EXPECT_EQ(sut.error().code, Code::kInvalidArgument);
    EXPECT_NE(sut.error().message.find(text), std::string::npos);
  }
}

TEST(ParseDuration, AcceptsTheUsualUnits) {
  EXPECT_EQ(parse_duration("60s")->count(), 60'000);
  EXPECT_EQ(parse_duration("500ms")->count(), 500);
  EXPECT_EQ(parse_duration("2m")->count(), 120'000);
  EXPECT_EQ(parse_duration("0")->count(), 0);
  EXPECT_FALSE(parse_duration("soon"));
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(640), "640 B");
  EXPECT_EQ(format_bytes(85 * 1024 * 1024 + 400 * 1024), "85.4 MiB");
}

TEST(DType, SizesAndNamesRoundTrip) {
  for (uint8_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_GT(dtype_size(dtype), 0u);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_size(static_cast<DType>(200)), 0u);
}

}  // namespace
}  // namespace npu
