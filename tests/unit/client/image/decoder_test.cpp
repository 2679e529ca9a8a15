#include "client/image/decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace npu::image {
namespace {

using testing::HasSubstr;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

constexpr std::string_view kPpm = "P6 2 1 255\nabcdef";

TEST(Decoder, ReadsAPicture) {
  Decoder sut;
  const auto size = sut.open(bytes_of(kPpm), "a.ppm");
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(*size, (Size{2, 1}));
  EXPECT_EQ(sut.format(), "PNM");
  Image image;
  ASSERT_TRUE(sut.decode(whole(*size), image));
  EXPECT_EQ(image.region, whole(*size));
  EXPECT_EQ(*image.at(0, 1), 'd');
}

TEST(Decoder, NamesTheFileAndTheFault) {
  Decoder sut;
  struct Case {
    std::string_view bytes;
    Fault fault;
    std::string_view words;
  };
  for (const Case& c : {Case{"", Fault::kEmpty, "empty"},
                        Case{"hello, world", Fault::kNotAnImage, "begins with 'hello, world'"},
                        Case{"P6 2 2 255\nabcdef", Fault::kTruncated, "truncated PNM"},
                        Case{"P6 99999 99999 255\n", Fault::kTooLarge, "99999 x 99999"},
                        Case{"P5 1 1 65535\nab", Fault::kUnsupported, "unsupported PNM: grey"}}) {
    const auto size = sut.open(bytes_of(c.bytes), "dir/odd name.jpg");
    ASSERT_FALSE(size);
    EXPECT_EQ(sut.fault(), c.fault) << size.error().message;
    EXPECT_THAT(size.error().message, HasSubstr("'dir/odd name.jpg'"));
    EXPECT_THAT(size.error().message, HasSubstr(std::string(c.words)));
  }
}

TEST(Decoder, WorksAfterARefusal) {
  Decoder sut;
  ASSERT_FALSE(sut.open(bytes_of("nonsense"), "a"));
  ASSERT_TRUE(sut.open(bytes_of(kPpm), "b"));
  EXPECT_EQ(sut.fault(), Fault::kNone);
}

TEST(Decoder, RefusesABoxOutsideThePicture) {
  Decoder sut;
  ASSERT_TRUE(sut.open(bytes_of(kPpm), "a.ppm"));
  Image image;
  for (const Box& box : {Box{0, 0, 1, 3}, Box{-1, 0, 1, 1}, Box{0, 0, 0, 1}}) {
    const auto decoded = sut.decode(box, image);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
  }
}

// Libraries keep rows: the memory of a picture of few pixels could be anything.
TEST(Decoder, RefusesAThreadOfPixels) {
  Decoder sut;
  for (const std::string_view bytes : {"P4 1 1000001\n", "P4 1000001 1\n"}) {
    ASSERT_FALSE(sut.open(bytes_of(bytes), "a.pbm"));
    EXPECT_EQ(sut.fault(), Fault::kTooLarge);
  }
}

TEST(Decoder, HasALimitOfItsOwn) {
  Decoder sut({.max_pixels = 1});
  ASSERT_FALSE(sut.open(bytes_of(kPpm), "a.ppm"));
  EXPECT_EQ(sut.fault(), Fault::kTooLarge);
}

TEST(ReadFile, GivesAllBytes) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/a.ppm";
  std::ofstream(path) << kPpm;
  std::vector<uint8_t> bytes(1000);
  ASSERT_TRUE(read_file(path, bytes));
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), kPpm);
}

TEST(ReadFile, RefusesFoldersAndMissingFiles) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path() + "/folder.jpg");
  std::vector<uint8_t> bytes;
  const auto folder = read_file(dir.path() + "/folder.jpg", bytes);
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("folder.jpg': a folder, expected a file"));
  const auto missing = read_file(dir.path() + "/none.jpg", bytes);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("none.jpg"));
}

}  // namespace
}  // namespace npu::image
