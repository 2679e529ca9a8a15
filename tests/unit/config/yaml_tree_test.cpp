#include "config/yaml_tree.hpp"

#include <gmock/gmock.h>

#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::HasSubstr;

TEST(YamlLimits, SyntaxErrorsHaveAPosition) {
  EXPECT_THAT(errors_of("name: a\ntrain: {epochs: 1\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(errors_of("name: a\n\tx: 1\n"), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(errors_of("[1, 2]"), HasSubstr("expected 'key: value' lines"));
  EXPECT_THAT(errors_of("just words"), HasSubstr("expected 'key: value' lines"));
}

TEST(YamlLimits, AnchorsAliasesTagsAndSecondDocumentsAreRefused) {
  const std::string text = errors_of("name: &n a\nmodel: {arch: *n}\n");
  EXPECT_THAT(text, HasSubstr("job.yaml:1:7: error: anchors ('&name') are not accepted"));
  EXPECT_THAT(text, HasSubstr("job.yaml:2:15: error: aliases ('*name') are not accepted"));
  EXPECT_THAT(errors_of("name: !!str a\n"), HasSubstr("is not accepted; write the plain value"));
  EXPECT_THAT(errors_of("name: a\n---\nname: b\n"), HasSubstr("a second document"));
  EXPECT_THAT(errors_of("? [a, b]\n: 1\nname: a\n"), HasSubstr("a key must be one plain word"));
}

TEST(YamlLimits, AliasBombIsRefusedQuickly) {
  std::string text = "name: a\na0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + "," + before + "]\n";
  }
  EXPECT_THAT(errors_of(text), HasSubstr("anchors"));
}

TEST(YamlLimits, DepthIsBounded) {
  EXPECT_THAT(errors_of("name: a\nx: " + std::string(20, '[') + std::string(20, ']')),
              HasSubstr("nested deeper than 16 levels"));
  for (const char* part : {"[", "{a: ", "- ", "? ", "!t ", "{", "a: [\n"}) {
    std::string text;
    while (text.size() + 8 < kMaxFileBytes / 8) text += part;
    EXPECT_THAT(errors_of(text), HasSubstr("job.yaml")) << part;
  }
}

TEST(YamlLimits, StrayCommaAfterTheDocumentEnds) {
  // yaml-cpp 0.7 reports one empty document after the other there.
  EXPECT_THAT(errors_of("{name: a},{},"), HasSubstr("a second document"));
}

TEST(YamlLimits, SizeAndZeroBytesAreRefused) {
  EXPECT_THAT(errors_of(std::string(kMaxFileBytes + 1, 'a')), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(errors_of(std::string("name: a\0b", 9)), HasSubstr("zero byte"));
}

TEST(YamlLimits, FloodOfFindingsIsCut) {
  std::string text = "name: a\n";
  for (int i = 0; i < 2000; ++i) text += "unknown_key_" + std::to_string(i) + ": 1\n";
  const std::string out = errors_of(text);
  EXPECT_THAT(out, HasSubstr("... and 1950 more"));
  EXPECT_THAT(out, HasSubstr("2000 errors in job.yaml"));
  EXPECT_LT(out.size(), 20'000u);
}

TEST(YamlLimits, WindowsLineEndsAreAccepted) {
  EXPECT_EQ(errors_of("name: a\r\ntrain:\r\n  epochs: 3\r\n"), "");
}

TEST(ParseYaml, KeepsDuplicatesWithTheirPlaces) {
  Diagnostics out("f", "", {});
  Node sut;
  ASSERT_TRUE(parse_yaml("a: 1\nb: 'x'\na: 2\n", 0, sut, out));
  ASSERT_EQ(sut.keys.size(), 3u);
  EXPECT_EQ(sut.keys[2].text, "a");
  EXPECT_EQ(sut.keys[2].place.line, 3);
  EXPECT_TRUE(sut.items[1].quoted);
  EXPECT_EQ(sut.items[1].place.length, 3);
}

}  // namespace
}  // namespace npu::config
