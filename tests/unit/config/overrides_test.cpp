#include <gmock/gmock.h>

#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kText = "name: a\ntrain: {epochs: 3}\n";

TEST(Overrides, WinOverTheFileAndTheLastOneWins) {
  const std::vector<std::string> overrides = {"train.epochs=1", "train.epochs=2", "devices=0-1",
                                              "checkpoint.resume=never",
                                              "train.stop_after_steps=null"};
  const auto sut = load_job_text(kText, "job.yaml", overrides);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->train.epochs, 2);
  EXPECT_EQ(sut->world(), 2);
  EXPECT_EQ(sut->checkpoint.resume, ResumeKind::kNever);
}

TEST(Overrides, CanNameTheRun) {
  const std::vector<std::string> overrides = {"name=b"};
  EXPECT_EQ(load_job_text("", "job.yaml", overrides)->name, "b");
}

TEST(Overrides, ValuesMayContainEqualsSigns) {
  const std::vector<std::string> overrides = {"data.path=/a=b"};
  EXPECT_EQ(load_job_text(kText, "job.yaml", overrides)->data.path, "/a=b");
}

TEST(Overrides, AreDiagnosedByTheirText) {
  EXPECT_THAT(errors_of(kText, {"train.epochs=x"}),
              StartsWith("--set train.epochs=x: error: train.epochs: expected an integer "
                         "1..100000, got 'x'\n"));
  EXPECT_THAT(errors_of(kText, {"train.epoch=1"}), HasSubstr("did you mean 'train.epochs'?"));
  EXPECT_THAT(errors_of(kText, {"epochs=1"}), HasSubstr("did you mean 'train.epochs'?"));
  EXPECT_THAT(errors_of(kText, {"train=1"}), HasSubstr("'train' is a section"));
  EXPECT_THAT(errors_of(kText, {"train.epochs"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(errors_of(kText, {"=3"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(errors_of(kText, {"train.epochs="}), HasSubstr("got nothing"));
  EXPECT_THAT(errors_of(kText, {"train.epochs=[1"}), HasSubstr("not valid YAML"));
  EXPECT_THAT(errors_of(kText, {"train.epochs=&a 1"}), HasSubstr("anchors"));
}

TEST(Overrides, AreNamedByRulesThatSpanKeys) {
  const std::string text = errors_of(kText, {"train.batch_size=10", "devices=0-3"});
  EXPECT_THAT(text, StartsWith("--set train.batch_size=10: error: train.batch_size: 10 images"));
  EXPECT_THAT(text, HasSubstr("use 8 or 12 (4 devices are set at --set devices=0-3)"));
}

TEST(Overrides, AreReportedTogetherWithTheFile) {
  const std::string text = errors_of("name: a\nfoo: 1\n", {"bar=2"});
  EXPECT_THAT(text, HasSubstr("job.yaml:2:1: error: unknown key 'foo'"));
  EXPECT_THAT(text, HasSubstr("--set bar=2: error: unknown key 'bar'"));
  EXPECT_THAT(text, HasSubstr("2 errors in job.yaml"));
}

}  // namespace
}  // namespace npu::config
