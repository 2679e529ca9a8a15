#include "client/record/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace npu::client {
namespace {

long commas(std::string_view text) { return std::ranges::count(text, ','); }

StepEvent step() {
  return {.epoch = 1,
          .step = 12,
          .step_in_epoch = 4,
          .loss = 0.5,
          .acc1 = 75,
          .acc5 = 100,
          .lr = 0.1,
          .scale = 1024,
          .img_s = 1932.25,
          .batch_s = 0.0661,
          .data_s = 1e-5};
}

TEST(Rows, StepHasACellForEveryColumn) {
  EXPECT_EQ(step_row(step(), 1'700'000'000.5),
            "12,1,4,0.5,75,100,0.1,1024,1932.25,0.0661,1e-05,1700000000.500");
  EXPECT_EQ(commas(step_row(step(), 0)), commas(kStepHeader));
}

TEST(Rows, EpochLeavesOutWhatWasNotMeasured) {
  EpochEvent epoch{.epoch = 3, .train_loss = 1.5, .train_acc1 = 50, .val_loss = 7, .img_s = 100};
  EXPECT_EQ(epoch_row(epoch, 40, 1), "3,40,1.5,50,,,,,,100,0,0,1.000");
  epoch.val_samples = 10;
  epoch.best = true;
  epoch.val_ema_acc1 = 20;
  EXPECT_EQ(epoch_row(epoch, 40, 1), "3,40,1.5,50,7,0,0,,20,100,0,1,1.000");
  EXPECT_EQ(commas(epoch_row(epoch, 40, 1)), commas(kEpochHeader));
}

TEST(Rows, MetricIsAJsonObjectOfTheWholeJob) {
  const auto line = nlohmann::json::parse(metric_line({"loss", 0.5, "nats", 12, 1}, 1.25));
  EXPECT_EQ(line, nlohmann::json::parse(R"({"schema":1,"name":"loss","value":0.5,"unit":"nats",
      "global_step":12,"epoch":1,"timestamp":1.25,"rank":"all"})"));
}

TEST(Rows, NumberThatIsNoneIsNullInJson) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(
        nlohmann::json::parse(metric_line({"loss", value, "nats", 1, 0}, 0))["value"].is_null());
  }
}

TEST(Rows, EpochWithoutValidationHasNoValidationMetrics) {
  const auto names = [](const EpochEvent& epoch) {
    std::vector<std::string> all;
    for (const Metric& metric : metrics_of(epoch, 1)) all.emplace_back(metric.name);
    return all;
  };
  EXPECT_THAT(names({}), testing::Not(testing::Contains("val_loss")));
  EXPECT_THAT(names({.val_samples = 1}), testing::Contains("val_loss"));
}

}  // namespace
}  // namespace npu::client
