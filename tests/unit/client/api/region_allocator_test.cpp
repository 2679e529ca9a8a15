#include "client/api/region_allocator.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace npu::client {
namespace {

TEST(RegionAllocator, PiecesAreAlignedApartAndComeBack) {
  std::vector<std::byte> memory(1 << 16);
  RegionAllocator sut(memory);
  std::vector<std::pair<std::byte*, uint64_t>> held;
  std::mt19937 rng(7);
  for (int i = 0; i < 5000; ++i) {
    if (rng() % 2 == 0 || held.empty()) {
      const uint64_t bytes = rng() % 3000;
      auto p = sut.allocate(bytes, "test");
      if (!p) {
        EXPECT_EQ(p.error().code, Code::kResourceExhausted);
        continue;
      }
      for (const auto& [q, n] : held) EXPECT_TRUE(*p + bytes <= q || q + n <= *p);
      EXPECT_EQ((*p - memory.data()) % 128, 0);
      held.emplace_back(*p, bytes);
    } else {
      const size_t at = rng() % held.size();
      EXPECT_TRUE(sut.release(held[at].first));
      EXPECT_FALSE(sut.release(held[at].first)) << "twice";
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  for (const auto& [p, n] : held) EXPECT_TRUE(sut.release(p));
  EXPECT_EQ(sut.free_bytes(), memory.size());
  EXPECT_TRUE(sut.allocate(memory.size(), "all of it, in one piece again"));
}

TEST(RegionAllocator, SaysWantedFreeAndLargest) {
  std::vector<std::byte> memory(4096);
  RegionAllocator sut(memory);
  ASSERT_TRUE(sut.allocate(1024, "a"));
  const auto p = sut.allocate(8192, "stage the buffer");
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().message,
            "stage the buffer: 8.0 KiB wanted, 3.0 KiB of 4.0 KiB are free, 3.0 KiB in one piece");
  EXPECT_FALSE(sut.allocate(UINT64_MAX, "overflow"));
  EXPECT_FALSE(sut.release(memory.data() + 128));
  EXPECT_FALSE(sut.release(nullptr));
}

TEST(RegionAllocator, AnEmptyRegionHasNoRoom) {
  RegionAllocator sut({});
  EXPECT_FALSE(sut.allocate(1, "x"));
}

}  // namespace
}  // namespace npu::client
