// Known answers and piecewise equality of the XXH3 wrapper.
#include "shm/format/digest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace npu {
namespace {

std::vector<std::byte> pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + 7);
  return bytes;
}

TEST(Digest, EmptyInputHasThePublishedValues) {
  EXPECT_EQ(to_hex(xxh3_64({})), "2d06800538d394c2");
  EXPECT_EQ(to_hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, PiecesOfAnySizeEqualTheWhole) {
  const auto bytes = pattern(5000);
  for (const size_t piece : {1U, 7U, 64U, 239U, 241U, 1024U, 4999U}) {
    Xxh3 sut64(Xxh3::Width::k64);
    Xxh3 sut128(Xxh3::Width::k128);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const auto part = std::span(bytes).subspan(at, std::min(piece, bytes.size() - at));
      sut64.update(part);
      sut128.update(part);
    }
    EXPECT_EQ(sut64.digest64(), xxh3_64(bytes)) << "piece " << piece;
    EXPECT_EQ(sut128.digest128(), xxh3_128(bytes)) << "piece " << piece;
  }
}

TEST(Digest, ResetForgetsEarlierBytes) {
  Xxh3 sut(Xxh3::Width::k64);
  sut.update(pattern(300));
  sut.reset();
  EXPECT_EQ(sut.digest64(), xxh3_64({}));
}

TEST(Digest, HexRoundTripsAndRefusesEverythingElse) {
  EXPECT_EQ(parse_hex64("00000000000000ff"), 255U);
  EXPECT_EQ(parse_hex64(to_hex(uint64_t{0xfedcba9876543210})), 0xfedcba9876543210U);
  EXPECT_EQ(parse_hex128(to_hex(Digest128{1, 2})), (Digest128{1, 2}));
  for (const char* bad : {"", "ff", "00000000000000FF", "00000000000000fg", "00000000000000ff0"}) {
    EXPECT_EQ(parse_hex64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_hex128("00000000000000ff"), std::nullopt);
}

}  // namespace
}  // namespace npu
