#include "client/record/plot_script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::HasSubstr;
using testing::Not;

RunCurves run(const std::string& name) {
  return {.name = name,
          .steps = parse_table("step,loss,img_s\n1,2.5,100\n2,1.5,110\n"),
          .epochs = parse_table("epoch,step,val_loss\n0,2,1.75\n")};
}

TEST(PlotScript, DrawsTrainingAndValidationOfEveryRun) {
  const auto script =
      plot_script({run("a"), run("b")}, {.form = PlotForm::kPng, .metrics = {"loss"}});
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_THAT(*script, HasSubstr("set terminal pngcairo"));
  for (const char* part : {"1 2.5\n2 1.5\nEOD", "2 1.75\nEOD", "title 'a train'", "title 'a val'",
                           "title 'b train'", "title 'b val'"}) {
    EXPECT_THAT(*script, HasSubstr(part));
  }
}

TEST(PlotScript, EveryMetricHasADiagram) {
  const auto script =
      plot_script({run("a")}, {.form = PlotForm::kSvg, .metrics = {"loss", "img_s"}});
  ASSERT_TRUE(script);
  EXPECT_THAT(*script, HasSubstr("multiplot layout 2,1"));
  EXPECT_THAT(*script, HasSubstr("ylabel 'images/s'"));
}

TEST(PlotScript, NameCannotLeaveItsQuotes) {
  const auto script = plot_script({run("a'; system('touch /tmp/x')\n")}, {.metrics = {"img_s"}});
  ASSERT_TRUE(script);
  EXPECT_THAT(*script, HasSubstr("title 'a''; system(''touch /tmp/x'') '\n"));
}

TEST(PlotScript, UnknownMetricNamesTheColumns) {
  const auto script = plot_script({run("a")}, {.metrics = {"los"}});
  ASSERT_FALSE(script);
  EXPECT_THAT(script.error().message, HasSubstr("'los' is none of step, loss, img_s"));
}

TEST(PlotScript, NothingRecordedIsNotFound) {
  RunCurves empty{.name = "a", .steps = parse_table("step,loss\n"), .epochs = {}};
  const auto script = plot_script({empty}, {.metrics = {"loss"}});
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace npu::client
