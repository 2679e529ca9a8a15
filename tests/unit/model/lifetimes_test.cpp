// Tensors that live together never overlap; those that do not may.
#include "model/lifetimes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace npu::model {
namespace {

TEST(Lifetimes, TensorsThatFollowEachOtherShareBytes) {
  Lifetimes sut;
  const size_t a = sut.add(100, 0, 1);
  const size_t b = sut.add(100, 2, 3);
  sut.place();
  EXPECT_EQ(sut.offset(a), sut.offset(b));
  EXPECT_EQ(sut.total_bytes(), 128U);
}

TEST(Lifetimes, TouchingInOneInstantIsLivingTogether) {
  Lifetimes sut;
  const size_t a = sut.add(64, 0, 1);
  const size_t b = sut.add(64, 1, 2);
  sut.place();
  EXPECT_NE(sut.offset(a), sut.offset(b));
  EXPECT_EQ(sut.total_bytes(), 128U);
}

TEST(Lifetimes, NothingTakesNothing) {
  Lifetimes sut;
  sut.place();
  EXPECT_EQ(sut.total_bytes(), 0U);
}

TEST(Lifetimes, RandomTensorsNeverOverlapWhileBothLive) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    struct Row {
      uint64_t bytes;
      int first;
      int last;
      size_t id;
    };
    Lifetimes sut;
    std::vector<Row> rows;
    for (int i = 0; i < 40; ++i) {
      Row row{random() % 5000, static_cast<int>(random() % 30), 0, 0};
      row.last = row.first + static_cast<int>(random() % 10);
      row.id = sut.add(row.bytes, row.first, row.last);
      rows.push_back(row);
    }
    sut.place();
    for (const Row& a : rows) {
      EXPECT_EQ(sut.offset(a.id) % Lifetimes::kAlignment, 0U);
      EXPECT_LE(sut.offset(a.id) + a.bytes, sut.total_bytes());
      for (const Row& b : rows) {
        if (a.id == b.id || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(sut.offset(a.id) + a.bytes <= sut.offset(b.id) ||
                    sut.offset(b.id) + b.bytes <= sut.offset(a.id));
      }
    }
  }
}

}  // namespace
}  // namespace npu::model
