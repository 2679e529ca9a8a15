#include "client/data/idx.hpp"

#include <gmock/gmock.h>

#include "tests/unit/client/data/idx_files.hpp"

namespace npu::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Every test runs on a plain and on a gzip file.
class Idx : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::string path() const { return folder_.file(std::string("f") + GetParam()); }
  [[nodiscard]] bool gz() const { return path().ends_with(".gz"); }

  std::string error_of(const std::string& bytes, uint32_t rank) {
    write_file(path(), bytes);
    return raw_error(rank);
  }
  std::string raw_error(uint32_t rank) {
    const auto sut = read_idx(path(), rank);
    if (sut) return "";
    EXPECT_EQ(sut.error().exit, Exit::kBadData);
    EXPECT_THAT(sut.error().message, HasSubstr(path()));
    return sut.error().message;
  }

  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Files, Idx, testing::Values("", ".gz"),
                         [](const auto& row) { return *row.param ? "Gzip" : "Plain"; });

TEST_P(Idx, ReadsImages) {
  write_file(path(), idx_header(8, {3, 4, 5}) + counting(60));
  const auto sut = read_idx(path(), 3);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(sut->dims, ElementsAre(3, 4, 5));
  ASSERT_EQ(sut->bytes.size(), 60u);
  EXPECT_EQ(sut->bytes[59], 59);
  EXPECT_EQ(sut->md5.size(), 32u);
}

TEST_P(Idx, ReadsMoreThanOneChunk) {
  const size_t n = (size_t{5} << 20) + 17;
  write_file(path(), idx_header(8, {static_cast<uint32_t>(n)}) + counting(n));
  const auto sut = read_idx(path(), 1);
  ASSERT_TRUE(sut) << sut.error().message;
  ASSERT_EQ(sut->bytes.size(), n);
  for (size_t i = 0; i < n; i += 1013) ASSERT_EQ(sut->bytes[i], i % 251);
}

TEST_P(Idx, RefusesWrongMagic) {
  EXPECT_THAT(error_of("PNG!", 3), HasSubstr("expected the IDX magic 00000803"));
  EXPECT_THAT(error_of(idx_header(8, {}) + "abcd", 1),
              HasSubstr("expected the IDX magic 00000801"));
}

TEST_P(Idx, NamesOtherTypesAndRanks) {
  EXPECT_THAT(error_of(idx_header(0x0D, {1, 1, 1}) + "abcd", 3),
              HasSubstr("holds floats (type 0d)"));
  EXPECT_THAT(error_of(idx_header(0x42, {1, 1, 1}) + "abcd", 3), HasSubstr("no IDX type"));
  EXPECT_THAT(error_of(idx_header(8, {1}) + "a", 3), HasSubstr("has 1 dimensions, expected 3"));
}

TEST_P(Idx, RefusesEveryTruncation) {
  const std::string whole = idx_header(8, {2, 3, 3}) + counting(18);
  for (size_t keep = 0; keep < whole.size(); ++keep) {
    EXPECT_THAT(error_of(whole.substr(0, keep), 3), HasSubstr("truncated")) << keep;
  }
}

TEST_P(Idx, RefusesTrailingBytesAndEmptySets) {
  EXPECT_THAT(error_of(idx_header(8, {2}) + "abc", 1), HasSubstr("bytes follow the 2"));
  EXPECT_THAT(error_of(idx_header(8, {0, 3, 3}), 3), HasSubstr("holds no items"));
}

TEST_P(Idx, ForgedHeaderAllocatesNothing) {
  EXPECT_THAT(error_of(idx_header(8, {0xffffffff, 0xffffffff, 0xffffffff}) + "abc", 3),
              HasSubstr("announces more than"));
  EXPECT_THAT(error_of(idx_header(8, {3'000'000, 28, 28}) + "abc", 3), HasSubstr("truncated"));
}

TEST(IdxGzip, RefusesACutStreamAndFlippedBits) {
  TempFolder folder;
  const std::string path = folder.file("f.gz");
  const std::string whole = gz_bytes(idx_header(8, {1000}) + counting(1000, 7));
  for (size_t keep = 0; keep < whole.size(); ++keep) {
    write_plain(path, whole.substr(0, keep));
    const auto sut = read_idx(path, 1);
    ASSERT_FALSE(sut) << keep;
    EXPECT_EQ(sut.error().exit, Exit::kBadData) << keep << sut.error().message;
  }
  size_t refused = 0;
  for (size_t at = 10; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_plain(path, bad);
    if (!read_idx(path, 1)) ++refused;
  }
  EXPECT_EQ(refused, whole.size() - 10);
}

TEST(IdxFile, MissingIsNoInputAndAFolderIsNoFile) {
  TempFolder folder;
  const auto missing = read_idx(folder.file("none"), 3);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exit, Exit::kNoInput);
  const auto directory = read_idx(folder.path(), 3);
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, HasSubstr("not a regular file"));
}

TEST(IdxFile, DigestIsOfTheContentNotOfTheCompression) {
  TempFolder folder;
  write_file(folder.file("a"), idx_header(8, {3}) + "abc");
  write_file(folder.file("a.gz"), idx_header(8, {3}) + "abc");
  EXPECT_EQ(read_idx(folder.file("a"), 1)->md5, read_idx(folder.file("a.gz"), 1)->md5);
  // md5sum of the eleven bytes.
  EXPECT_EQ(read_idx(folder.file("a"), 1)->md5, "ba24380862c233d5de71b298a2718b11");
}

}  // namespace
}  // namespace npu::data
