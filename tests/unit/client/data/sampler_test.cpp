#include "client/data/sampler.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

namespace npu::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tables below: made with torch 1.13 (torch.randperm, DistributedSampler).

TEST(Generator, StandardMt19937MatchesTheReferenceStream) {
  std::mt19937 sut(0);
  const auto uniform = [&] { return static_cast<double>(sut() & 0xFFFFFF) / (1 << 24); };
  EXPECT_EQ(uniform(), 0.49625658988952637);
  EXPECT_EQ(uniform(), 0.7682217955589294);
  EXPECT_EQ(uniform(), 0.08847743272781372);
}

TEST(Permutation, MatchesRandperm) {
  EXPECT_THAT(permutation(10, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  EXPECT_THAT(permutation(10, 1), ElementsAre(5, 6, 1, 2, 0, 8, 9, 3, 7, 4));
  EXPECT_THAT(permutation(10, 2), ElementsAre(8, 7, 1, 5, 6, 9, 0, 4, 2, 3));
}

TEST(Permutation, SmallestSets) {
  EXPECT_THAT(permutation(0, 0), ElementsAre());
  EXPECT_THAT(permutation(1, 0), ElementsAre(0));
}

struct ShardRow {
  int epoch;
  Remainder remainder;
  std::vector<std::vector<uint32_t>> ranks;
};

class ShardTable : public testing::TestWithParam<ShardRow> {};

TEST_P(ShardTable, MatchesDistributedSampler) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(shard(10, {.world = 4, .rank = rank, .seed = 0, .epoch = GetParam().epoch},
                    GetParam().remainder),
              GetParam().ranks[static_cast<size_t>(rank)]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    TenSamplesFourRanks, ShardTable,
    testing::Values(ShardRow{0, Remainder::kPad, {{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}}},
                    ShardRow{1, Remainder::kPad, {{5, 0, 7}, {6, 8, 4}, {1, 9, 5}, {2, 3, 6}}},
                    ShardRow{0, Remainder::kDrop, {{4, 3}, {1, 9}, {7, 0}, {5, 8}}},
                    ShardRow{1, Remainder::kDrop, {{5, 0}, {6, 8}, {1, 9}, {2, 3}}}));

TEST(Shard, PadsByWrappingMoreThanOnce) {
  const std::vector<uint32_t> expected = {2, 0, 1, 2, 0, 1, 2, 0};
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_THAT(shard(3, {.world = 8, .rank = rank}, Remainder::kPad),
                ElementsAre(expected[static_cast<size_t>(rank)]));
  }
}

TEST(Shard, ImagenetCounts) {
  EXPECT_EQ(shard(1'281'167, {.world = 8, .rank = 7}, Remainder::kPad).size(), 160'146u);
  EXPECT_EQ(shard(1'281'167, {.world = 8, .rank = 7}, Remainder::kDrop).size(), 160'145u);
  EXPECT_EQ(*train_steps(1'281'167, 8, 256), 625);
}

TEST(TrainSteps, ZeroStepsIsAnErrorWithAllNumbers) {
  const auto sut = train_steps(7, 8, 1);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message,
              HasSubstr("7 training samples do not fill one step of 8 ranks x 1"));
}

TEST(TrainPlan, EqualFullBatchesThatDoNotOverlap) {
  std::set<uint32_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    const auto sut = train_plan(100, {.world = 3, .rank = rank, .seed = 5, .epoch = 2}, 8);
    ASSERT_TRUE(sut);
    EXPECT_EQ(sut->batches(), 4u);
    for (size_t k = 0; k < sut->batches(); ++k) EXPECT_EQ(sut->of(k).size(), 8u);
    for (const uint32_t s : sut->samples) EXPECT_TRUE(seen.insert(s).second);
  }
  EXPECT_EQ(seen.size(), 96u);
}

TEST(TrainPlan, AStepUsesTheSameSamplesWhateverTheWorld) {
  const auto step = [](int world, size_t index) {
    std::multiset<uint32_t> samples;
    for (int rank = 0; rank < world; ++rank) {
      const auto plan =
          train_plan(203, {.world = world, .rank = rank, .seed = 9, .epoch = 1}, 16 / world);
      const auto part = plan->of(index);
      samples.insert(part.begin(), part.end());
    }
    return samples;
  };
  for (const int world : {2, 4, 8}) {
    EXPECT_EQ(*train_steps(203, world, 16 / world), *train_steps(203, 1, 16));
    for (size_t k = 0; k < 12; ++k) EXPECT_EQ(step(world, k), step(1, k));
  }
}

TEST(TrainPlan, StartingMidEpochIsTheTailOfTheWholeEpoch) {
  const ShardKey key{.world = 2, .rank = 1, .seed = 3, .epoch = 4};
  const auto whole = train_plan(100, key, 5);
  const auto sut = train_plan(100, key, 5, 7);
  ASSERT_TRUE(sut);
  ASSERT_EQ(sut->batches(), 3u);
  for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(std::ranges::equal(sut->of(k), whole->of(k + 7)));
  EXPECT_EQ(train_plan(100, key, 5, 10)->batches(), 0u) << "resume exactly at the end";
  EXPECT_FALSE(train_plan(100, key, 5, 11));
  EXPECT_FALSE(train_plan(100, key, 5, -1));
}

TEST(TrainPlan, MicroBatchesOfAStepAreItsBatchInPieces) {
  const ShardKey key{.world = 2, .rank = 1, .seed = 3, .epoch = 4};
  const auto whole = train_plan(100, key, 12);  // 4 steps; 2 images of each rank are left over
  const auto sut = train_plan(100, key, 4, 0, 3);
  ASSERT_TRUE(sut);
  ASSERT_EQ(sut->batches(), 12u);
  EXPECT_EQ(sut->samples, whole->samples);
  EXPECT_EQ(*train_steps(100, 2, 4, 3), 4);
  const auto resumed = train_plan(100, key, 4, 3, 3);
  ASSERT_TRUE(resumed);
  ASSERT_EQ(resumed->batches(), 3u);
  for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(std::ranges::equal(resumed->of(k), sut->of(9 + k)));
  EXPECT_THAT(train_steps(100, 2, 26, 2).error().message,
              HasSubstr("do not fill one step of 2 ranks x 52 images"));
}

TEST(TrainPlan, EpochsDifferAndSeedsDiffer) {
  const auto at = [](uint64_t seed, int epoch) {
    return train_plan(100, {.world = 1, .rank = 0, .seed = seed, .epoch = epoch}, 10)->samples;
  };
  EXPECT_NE(at(0, 0), at(0, 1));
  EXPECT_NE(at(0, 0), at(1, 0));
  EXPECT_EQ(at(7, 3), at(7, 3));
}

TEST(TrainPlan, RankOutsideTheWorldIsRefused) {
  EXPECT_FALSE(train_plan(100, {.world = 2, .rank = 2}, 5));
  EXPECT_FALSE(train_plan(100, {.world = 2, .rank = -1}, 5));
}

TEST(ValPlan, CountsEverySampleOnceForAnyWorldAndBatch) {
  for (const size_t n : {1u, 7u, 8u, 10u, 101u}) {
    for (int world = 1; world <= 8; ++world) {
      for (const int batch : {1, 3, 64}) {
        std::vector<int> count(n);
        for (int rank = 0; rank < world; ++rank) {
          const BatchPlan sut = val_plan(n, world, rank, batch);
          for (size_t k = 0; k < sut.batches(); ++k) {
            ASSERT_FALSE(sut.of(k).empty());
            for (const uint32_t s : sut.of(k)) ++count[s];
          }
        }
        EXPECT_EQ(std::ranges::count(count, 1), static_cast<ptrdiff_t>(n)) << n << " " << world;
      }
    }
  }
}

}  // namespace
}  // namespace npu::data
