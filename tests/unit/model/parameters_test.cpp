#include "model/parameters.hpp"

#include <gtest/gtest.h>

namespace npu::model {
namespace {

Parameter sized(const char* name, uint64_t floats, Role role = Role::kConvWeight) {
  return {.name = name,
          .shape = {},
          .role = role,
          .count = floats,
          .physical = floats,
          .layout = "a",
          .offset = 0};
}

TEST(ParameterTable, BucketsFollowCompletionOrderAndSizes) {
  ParameterTable sut;
  sut.add(sized("first", 1000));
  sut.add(sized("middle", 100));
  sut.add(sized("last", 20));
  const size_t order[] = {2, 1, 0};
  sut.lay_out(order, 256, 8192);
  EXPECT_EQ(sut[2].offset, 0U);
  EXPECT_EQ(sut[1].offset, 32U);  // 20 rounded up to a cache line
  EXPECT_EQ(sut[0].offset, 144U);
  ASSERT_EQ(sut.buckets().size(), 2U);
  EXPECT_EQ(sut.buckets()[0].end, 32U);  // the first one is small, so that the overlap starts early
  EXPECT_EQ(sut.buckets()[1].begin, 32U);
  EXPECT_EQ(sut.buckets()[1].end, sut.flat_floats());
}

TEST(ParameterTable, ZeroBucketBytesMeansOneBucket) {
  ParameterTable sut;
  sut.add(sized("a", 1000));
  sut.add(sized("b", 1000));
  const size_t order[] = {1, 0};
  sut.lay_out(order, 64, 0);
  EXPECT_EQ(sut.buckets().size(), 1U);
}

TEST(ParameterTable, HashSeesLayoutAndBuckets) {
  const auto hash_of = [](const char* layout, uint64_t bucket_bytes) {
    ParameterTable table;
    Parameter p = sized("a", 1000);
    p.layout = layout;
    table.add(p);
    table.add(sized("b", 1000));
    const size_t order[] = {1, 0};
    table.lay_out(order, bucket_bytes, bucket_bytes);
    return table.hash();
  };
  EXPECT_EQ(hash_of("x", 64), hash_of("x", 64));
  EXPECT_NE(hash_of("x", 64), hash_of("y", 64));
  EXPECT_NE(hash_of("x", 64), hash_of("x", 1 << 20));
}

TEST(Decays, ScopeDecidesByRole) {
  for (const Role role :
       {Role::kConvWeight, Role::kFcWeight, Role::kFcBias, Role::kBnWeight, Role::kBnBias}) {
    EXPECT_TRUE(decays(DecayScope::kAll, role));
    EXPECT_EQ(decays(DecayScope::kWeightsOnly, role),
              role == Role::kConvWeight || role == Role::kFcWeight);
    EXPECT_EQ(decays(DecayScope::kNoBatchNorm, role),
              role != Role::kBnWeight && role != Role::kBnBias);
  }
}

}  // namespace
}  // namespace npu::model
