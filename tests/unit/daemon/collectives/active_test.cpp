#include "daemon/collectives/active.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace npu::daemon {
namespace {

std::unique_ptr<Active> make(shm::Op op, uint64_t count, uint32_t ranks, uint32_t parts) {
  auto a = std::make_unique<Active>();
  a->op = op;
  a->ranks = ranks;
  a->parts = parts;
  a->count = count;
  a->element_bytes = 4;
  a->slice_elements = kSliceBytes / 4;
  a->cut();
  return a;
}

/// Every element of every part in exactly one slice.
void expect_partition(const Active& a) {
  uint64_t next = 0;
  uint32_t part = 0;
  for (uint64_t i = 0; i < a.slices; ++i) {
    const Slice s = slice_at(a, i);
    while (part < s.part) {
      EXPECT_EQ(next, a.part_count(part));
      ++part;
      next = 0;
    }
    ASSERT_EQ(s.begin, next);
    ASSERT_GT(s.count, 0u);
    ASSERT_LE(s.count, a.slice_elements);
    next += s.count;
  }
  EXPECT_EQ(next, a.part_count(part));
}

TEST(Slices, CoverEachElementOnce) {
  for (const uint64_t count : {1ul, 16'383ul, 16'384ul, 16'385ul, 100'000ul}) {
    expect_partition(*make(shm::Op::kAllReduce, count, 8, 1));
    expect_partition(*make(shm::Op::kAllGather, count, 3, 3));
    expect_partition(*make(shm::Op::kAllToAll, count, 8, 64));
  }
}

TEST(Slices, SkipEmptyPartsOfVectorForms) {
  auto a = make(shm::Op::kAllGather, 0, 8, 8);
  a->op = shm::Op::kAllGatherV;
  shm::VectorArgs v{};
  const uint64_t counts[] = {0, 40'000, 0, 0, 1, 16'384, 0, 20'000};
  std::copy(std::begin(counts), std::end(counts), v.recv_counts);
  a->vectors.fill(&v);
  a->cut();
  uint64_t sum = 0;
  for (uint64_t i = 0; i < a->slices; ++i) {
    const Slice s = slice_at(*a, i);
    EXPECT_LE(s.begin + s.count, counts[s.part]);
    sum += s.count;
  }
  EXPECT_EQ(sum, 40'000u + 1 + 16'384 + 20'000);
  EXPECT_EQ(a->slices, 3u + 1 + 1 + 2);
}

// Beyond 2^32 elements and bytes; nothing is touched.
TEST(Slices, ArithmeticHoldsForVeryLargeCounts) {
  const uint64_t count = (uint64_t{1} << 36) + 7;
  auto a = make(shm::Op::kAllReduce, count, 8, 1);
  const Slice last = slice_at(*a, a->slices - 1);
  EXPECT_EQ(last.begin + last.count, count);
  EXPECT_EQ(last.count, 7u);
  EXPECT_EQ(moved_bytes(*a), 16 * count * 4);
  auto parts = make(shm::Op::kAllToAll, uint64_t{1} << 33, 8, 64);
  const Slice end = slice_at(*parts, parts->slices - 1);
  EXPECT_EQ(end.part, 63u);
  EXPECT_EQ(end.begin + end.count, uint64_t{1} << 33);
}

}  // namespace
}  // namespace npu::daemon
