// Bytes that the writer plan produces: the golden file, order, padding and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shm/format/safetensors.hpp"

namespace npu {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return out;
}

std::string_view json_of(const SafetensorsPlan& plan) {
  return {reinterpret_cast<const char*>(plan.header().data()) + 8, plan.header().size() - 8};
}

TEST(SafetensorsPlan, MatchesTheGoldenFile) {
  const std::vector<TensorSpec> tensors = {{"a", FileDType::kF32, {2}}};
  const auto sut = SafetensorsPlan::build(tensors);
  ASSERT_TRUE(sut.has_value()) << sut.error().message;
  const float values[2] = {1.0F, 2.0F};
  EXPECT_EQ(
      hex(sut->header()) + hex(std::as_bytes(std::span(values))),
      "38000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b325d2c2264617461"
      "5f6f666673657473223a5b302c385d7d7d20200000803f00000040");
  EXPECT_EQ(sut->file_bytes(), 72U);
}

TEST(SafetensorsPlan, OrdersByWidthThenNameAndCountsOffsetsFromTheFileStart) {
  const std::vector<TensorSpec> tensors = {{"z", FileDType::kU8, {3}},
                                           {"b", FileDType::kF32, {2, 2}},
                                           {"a", FileDType::kF32, {}},
                                           {"n", FileDType::kI64, {1}}};
  const auto sut = SafetensorsPlan::build(tensors);
  ASSERT_TRUE(sut.has_value()) << sut.error().message;
  const uint64_t data = sut->header().size();
  ASSERT_EQ(sut->placements().size(), 4U);
  const size_t order[] = {3, 2, 1, 0};
  const uint64_t offsets[] = {0, 8, 12, 28};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sut->placements()[i].index, order[i]);
    EXPECT_EQ(sut->placements()[i].offset, data + offsets[i]);
  }
  EXPECT_EQ(data % 8, 0U);
  EXPECT_EQ(sut->file_bytes(), data + 31);
}

TEST(SafetensorsPlan, InputOrderDoesNotChangeTheBytes) {
  const std::vector<TensorSpec> forward = {{"a", FileDType::kF32, {1}},
                                           {"b", FileDType::kF16, {1}}};
  const std::vector<TensorSpec> backward = {forward[1], forward[0]};
  const auto one = SafetensorsPlan::build(forward, {{"k", "v"}});
  const auto two = SafetensorsPlan::build(backward, {{"k", "v"}});
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ(json_of(*one), json_of(*two));
}

TEST(SafetensorsPlan, EscapesNamesAndMetadata) {
  const std::vector<TensorSpec> tensors = {{"q\"\\\n\xc3\xa9", FileDType::kF32, {0}}};
  const auto sut = SafetensorsPlan::build(tensors, {{"format", "pt"}});
  ASSERT_TRUE(sut.has_value());
  EXPECT_THAT(
      json_of(*sut),
      testing::StartsWith("{\"__metadata__\":{\"format\":\"pt\"},\"q\\\"\\\\\\n\xc3\xa9\":"));
  const auto parsed = parse_safetensors(sut->header(), "planned");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->tensors[0].name, tensors[0].name);
}

TEST(SafetensorsPlan, NoTensorsGiveAValidFile) {
  const auto sut = SafetensorsPlan::build({});
  ASSERT_TRUE(sut.has_value());
  EXPECT_TRUE(parse_safetensors(sut->header(), "planned").has_value());
}

TEST(SafetensorsPlan, RefusesWhatAReaderWouldRefuse) {
  const std::vector<std::vector<TensorSpec>> bad = {
      {{"a", FileDType::kF32, {1}}, {"a", FileDType::kF64, {1}}},
      {{"__metadata__", FileDType::kF32, {1}}},
      {{"\xff", FileDType::kF32, {1}}},
      {{"a", FileDType::kF32, {1ULL << 62}}},
      {{"a", FileDType::kF32, {1ULL << 40, 1ULL << 40}}},
      {{"a", FileDType::kF32, TensorShape(kMaxTensorRank + 1, 1)}}};
  for (const auto& tensors : bad) {
    const auto sut = SafetensorsPlan::build(tensors);
    ASSERT_FALSE(sut.has_value()) << tensors[0].name;
    EXPECT_EQ(sut.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace npu
