// The manifest text, its round trip, and that no damaged or forged text passes.
#include "shm/format/manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shm/format/manifest_rules.hpp"

namespace npu {
namespace {

using testing::HasSubstr;

Manifest sample() {
  return Manifest{.run = "resnet20",
                  .step = 40,
                  .sequence = 3,
                  .created_unix_ms = 1'700'000'000'000,
                  .weights_digest = 0xabc,
                  .files = {{"model.safetensors", 72, {1, 2}}, {"state.json", 2, {3, 4}}},
                  .tensors = {{"model.safetensors", "a\"b", 5}}};
}

// Valid trailer over any body, as a forger would write it.
std::string signed_text(const std::string& body) { return body + manifest_trailer(body); }

std::string problem_of(std::string_view text) {
  const auto result = parse_manifest(text, "MANIFEST.json");
  return result ? "accepted" : result.error().message;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string body_of(const Manifest& manifest) {
  const std::string text = write_manifest(manifest).value();
  return text.substr(0, text.rfind("  \"manifest_xxh3_128\""));
}

TEST(Manifest, RoundTrips) {
  const auto text = write_manifest(sample());
  ASSERT_TRUE(text.has_value()) << text.error().message;
  const auto parsed = parse_manifest(*text, "MANIFEST.json");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, sample());
  EXPECT_EQ(write_manifest(*parsed).value(), *text);
}

TEST(Manifest, TextIsThePublishedFormat) {
  EXPECT_EQ(body_of(sample()), R"({
  "schema": 1,
  "run": "resnet20",
  "step": 40,
  "sequence": 3,
  "created_unix_ms": 1700000000000,
  "weights_digest": "0000000000000abc",
  "files": [
    {"name": "model.safetensors", "bytes": 72, "xxh3_128": "00000000000000010000000000000002"},
    {"name": "state.json", "bytes": 2, "xxh3_128": "00000000000000030000000000000004"}
  ],
  "tensors": [
    {"file": "model.safetensors", "name": "a\"b", "xxh3_64": "0000000000000005"}
  ],
)");
}

TEST(Manifest, EveryCutAndEveryFlippedBitIsFound) {
  const std::string text = write_manifest(sample()).value();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(problem_of(std::string_view(text).substr(0, size)), "accepted") << size;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ASSERT_NE(problem_of(damaged), "accepted") << "byte " << i << " bit " << bit;
    }
  }
  EXPECT_NE(problem_of(text + "\n"), "accepted");
}

TEST(Manifest, ForgedTextWithAValidDigestStillObeysTheRules) {
  const std::string body = body_of(sample());
  EXPECT_EQ(problem_of(signed_text(body)), "accepted");
  const auto forged = [&](std::string_view from, std::string_view to) {
    return problem_of(signed_text(replaced(body, from, to)));
  };
  EXPECT_THAT(forged("\"run\": \"resnet20\"", "\"run\": \"..\""), HasSubstr("run name"));
  EXPECT_THAT(forged("\"run\": \"resnet20\"", "\"run\": 5"), HasSubstr("not expected"));
  EXPECT_THAT(forged("\"step\": 40", "\"step\": -1"), HasSubstr("negative"));
  EXPECT_THAT(forged("\"step\": 40,\n", ""), HasSubstr("'step' is missing"));
  EXPECT_THAT(forged("\"step\": 40", "\"step\": 40, \"step\": 41"), HasSubstr("twice"));
  EXPECT_THAT(forged("\"step\": 40", "\"stepp\": 40"), HasSubstr("not known"));
  EXPECT_THAT(forged("1700000000000", "18446744073709551615"), HasSubstr("not expected"));
  EXPECT_THAT(forged("0000000000000abc", "0000000000000ABC"), HasSubstr("hex digest"));
  EXPECT_THAT(forged("\"model.safetensors\", \"bytes\"", "\"../x\", \"bytes\""),
              HasSubstr("not allowed"));
  EXPECT_THAT(forged("\"model.safetensors\", \"bytes\"", "\"state.json\", \"bytes\""),
              HasSubstr("listed twice"));
  EXPECT_THAT(forged("\"file\": \"model.safetensors\"", "\"file\": \"other\""),
              HasSubstr("not listed"));
  EXPECT_THAT(forged("\"bytes\": 72", "\"bytes\": 18446744073709551615"), HasSubstr("not allowed"));
  EXPECT_THAT(forged("\"bytes\": 72, ", ""), HasSubstr("'bytes' is missing"));
  EXPECT_THAT(forged("\"schema\": 1,\n", ""), HasSubstr("first field"));
  EXPECT_THAT(forged("\"files\": [", "\"files\": [[], "), HasSubstr("not expected"));
}

TEST(Manifest, NewerSchemaIsNamedAsSuch) {
  const auto result = parse_manifest(
      signed_text(replaced(body_of(sample()), "\"schema\": 1", "\"schema\": 2")), "m");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kUnimplemented);
}

TEST(Manifest, DuplicateTensorsAreRefused) {
  Manifest manifest = sample();
  manifest.tensors.push_back(manifest.tensors[0]);
  EXPECT_FALSE(write_manifest(manifest).has_value());
}

TEST(RunName, OnlySafePathComponentsPass) {
  for (const char* good : {"a", "resnet20-fashion.mnist_1", "...", "0"}) {
    EXPECT_TRUE(check_run_name(good).has_value()) << good;
  }
  for (const std::string bad : {"", ".", "..", "A", "a/b", "a b", "\xc3\xa9", "a\n"}) {
    EXPECT_FALSE(check_run_name(bad).has_value()) << bad;
  }
  EXPECT_TRUE(check_run_name(std::string(64, 'a')).has_value());
  EXPECT_FALSE(check_run_name(std::string(65, 'a')).has_value());
  EXPECT_FALSE(check_run_name(std::string_view("a\0", 2)).has_value());
}

}  // namespace
}  // namespace npu
