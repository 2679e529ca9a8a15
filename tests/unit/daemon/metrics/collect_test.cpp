// What a scrape says of a given state.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/exposition.hpp"
#include "tests/unit/daemon/metrics/metrics_rig.hpp"

namespace npu::daemon {
namespace {

using test::Exposed;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CollectTest : public testing::Test, protected MetricsRig {
 protected:
  Exposed scrape() {
    text_ = metrics_text(view);
    Exposed got = test::read_exposition(text_);
    EXPECT_THAT(got.problems, IsEmpty()) << text_;
    return got;
  }
  std::string text_;
};

TEST_F(CollectTest, ADaemonWithoutRunsHasDevicesAndNoRunSeries) {
  const Exposed got = scrape();
  EXPECT_EQ(got.sum("npud_device_info"), 8);
  EXPECT_EQ(got.sum("npud_device_attached"), 0);
  EXPECT_EQ(got.sum("npud_device_state", {{"state", "idle"}}), 8);
  EXPECT_EQ(got.sum("npud_device_healthy"), 8);
  EXPECT_EQ(got.value("npud_device_memory_capacity_bytes", {{"device", "7"}}), 4294967296.0);
  EXPECT_EQ(got.sum("npud_ring_capacity"), 8 * 256);
  EXPECT_THAT(got.families.at("npud_run_loss").samples, IsEmpty());
  EXPECT_THAT(got.families.at("npud_collective_ops_total").samples, IsEmpty());
  EXPECT_EQ(got.value("npud_build_info", {{"version", "1.2.3"}}), 1);
}

TEST_F(CollectTest, ARunShowsItsTraining) {
  RunView& run = add_run("tiny", 1000, 0);
  run.step = 12;
  run.training = {.arch = "resnet20",
                  .precision = "fp16, loss scale 1024",
                  .steps = 12,
                  .epoch = 1,
                  .loss = 0.75,
                  .top1 = 0.5,
                  .top5 = 0.9,
                  .learning_rate = 0.1,
                  .loss_scale = 1024,
                  .skipped = 2,
                  .samples = 1536,
                  .data_wait_s = 0.25,
                  .validations = 1,
                  .val_loss = 0.7,
                  .val_top1 = 0.6,
                  .val_top5 = 0.95};
  run.last_arrivals[1] = 9;
  run.history = {.restarts = 1, .checkpoints = 3, .last_bytes = 99, .last_success_unix = 1e9, .interval_s = 60};
  const Exposed got = scrape();
  const std::map<std::string, std::string> tiny = {{"run", "tiny"}, {"uid", "1000"}};
  EXPECT_EQ(got.value("npud_run_step", tiny), 12);
  EXPECT_EQ(got.value("npud_run_epoch", tiny), 1);
  EXPECT_EQ(got.value("npud_run_loss", {{"run", "tiny"}, {"split", "train"}}), 0.75);
  EXPECT_EQ(got.value("npud_run_loss", {{"run", "tiny"}, {"split", "val"}}), 0.7);
  EXPECT_EQ(got.value("npud_run_accuracy_ratio", {{"split", "val"}, {"topk", "5"}}), 0.95);
  EXPECT_EQ(got.value("npud_run_learning_rate", tiny), 0.1);
  EXPECT_EQ(got.value("npud_run_loss_scale", tiny), 1024);
  EXPECT_EQ(got.value("npud_run_skipped_steps_total", tiny), 2);
  EXPECT_EQ(got.value("npud_run_samples_total", tiny), 1536);
  EXPECT_EQ(got.value("npud_run_phase_seconds_total", {{"phase", "data"}}), 0.25);
  EXPECT_EQ(got.value("npud_run_restarts_total", tiny), 1);
  EXPECT_EQ(got.value("npud_run_info", {{"arch", "resnet20"}, {"precision", "fp16, loss scale 1024"}}), 1);
  EXPECT_EQ(got.value("npud_collective_last_arrival_total", {{"run", "tiny"}, {"rank", "1"}}), 9);
  EXPECT_EQ(got.value("npud_checkpoint_total", {{"run", "tiny"}, {"result", "ok"}}), 3);
  EXPECT_EQ(got.value("npud_checkpoint_interval_seconds", tiny), 60);
  EXPECT_EQ(got.value("npud_device_attached", {{"device", "1"}, {"run", "tiny"}, {"rank", "1"}}), 1);
}

TEST_F(CollectTest, WhatARankHasNotSaidHasNoSeries) {
  add_run("quiet", 1000, 0);
  const Exposed got = scrape();
  EXPECT_EQ(got.value("npud_run_info", {{"run", "quiet"}}), 1);
  for (const char* name : {"npud_run_loss", "npud_run_epoch", "npud_run_samples_total", "npud_run_accuracy_ratio",
                           "npud_checkpoint_last_success_timestamp_seconds", "npud_checkpoint_interval_seconds"}) {
    EXPECT_THAT(got.families.at(name).samples, IsEmpty()) << name;
  }
}

TEST_F(CollectTest, NumbersThatMakeNoSenseAreShownAsTheyAre) {
  RunView& run = add_run("odd", 1000, 0);
  run.training.steps = 1;
  run.training.loss = std::nan("");
  run.training.loss_scale = HUGE_VAL;
  const Exposed got = scrape();
  EXPECT_TRUE(std::isnan(*got.value("npud_run_loss", {{"run", "odd"}})));
}

TEST_F(CollectTest, OneNameOfTwoUsersIsTwoRuns) {
  add_run("same", 1000, 0).step = 1;
  add_run("same", 1001, 2).step = 2;
  const Exposed got = scrape();
  EXPECT_EQ(got.value("npud_run_step", {{"uid", "1000"}}), 1);
  EXPECT_EQ(got.value("npud_run_step", {{"uid", "1001"}}), 2);
}

TEST_F(CollectTest, AForeignDeviceIsTakenByNobodyInParticular) {
  add_run("secret", 1000, 0);
  view.runs.clear();
  for (DeviceView& device : view.devices) device.run.clear();
  const Exposed got = scrape();
  EXPECT_EQ(got.value("npud_device_attached", {{"device", "0"}, {"run", ""}, {"uid", ""}, {"rank", ""}}), 1);
  EXPECT_THAT(text_, Not(HasSubstr("secret")));
  EXPECT_THAT(text_, Not(HasSubstr("1000")));
}

TEST_F(CollectTest, AStalledDeviceIsNotHealthy) {
  add_run("slow", 1000, 0);
  view.devices[1].stalled = true;
  view.devices[1].heartbeat_age_s = 31.5;
  const Exposed got = scrape();
  EXPECT_EQ(got.value("npud_device_healthy", {{"device", "1"}}), 0);
  EXPECT_EQ(got.value("npud_device_state", {{"device", "1"}, {"state", "stall"}}), 1);
  EXPECT_EQ(got.value("npud_device_state", {{"device", "1"}, {"state", "busy"}}), 0);
  EXPECT_EQ(got.value("npud_device_heartbeat_age_seconds", {{"device", "1"}}), 31.5);
}

TEST_F(CollectTest, OperationsAppearAsTheyAreCounted) {
  engine->count({.op = 1, .dtype = 4, .algorithm = 2, .payload_bytes = 4000, .first_ns = 1, .last_ns = 2, .end_ns = 9});
  engine->count({.op = 1, .dtype = 4, .code = static_cast<uint8_t>(Code::kAborted)});
  engine->devices[2].errors[static_cast<size_t>(Code::kAborted)].add(1);
  const Exposed got = scrape();
  const std::map<std::string, std::string> labels = {{"op", "all-reduce"}, {"dtype", "fp32"}};
  EXPECT_EQ(got.value("npud_collective_ops_total", {{"algo", "direct"}, {"result", "ok"}}), 1);
  EXPECT_EQ(got.value("npud_collective_ops_total", {{"algo", "none"}, {"result", "aborted"}}), 1);
  EXPECT_EQ(got.value("npud_collective_bytes_total", labels), 4000);
  EXPECT_EQ(got.value("npud_collective_duration_seconds_count", {{"op", "all-reduce"}, {"size", "le4k"}}), 1);
  EXPECT_EQ(got.value("npud_collective_arrival_skew_seconds_count", {{"op", "all-reduce"}}), 1);
  EXPECT_EQ(got.value("npud_device_errors_total", {{"device", "2"}, {"code", "aborted"}}), 1);
}

TEST_F(CollectTest, TheNumberOfSeriesIsBounded) {
  for (uint8_t op = 0; op < shm::kOpCount; ++op) {
    for (uint8_t dtype = 0; dtype <= kDTypeCount; ++dtype) {
      for (uint8_t algorithm = 0; algorithm < shm::kAlgorithmCount; ++algorithm) {
        for (uint8_t code = 0; code < kCodes; ++code) {
          engine->count({.op = op, .dtype = dtype, .algorithm = algorithm, .code = code, .payload_bytes = 1u << op});
        }
      }
    }
  }
  for (uint32_t d = 0; d < 8; d += 2) add_run("run-" + std::to_string(d), d, d);
  EXPECT_LT(scrape().series(), 5000u) << "everything that could ever be counted at once";
}

TEST_F(CollectTest, AscendsNamesAreThereIfAskedFor) {
  add_run("tiny", 1000, 0);
  EXPECT_THAT(metrics_text(view), Not(HasSubstr("npu_chip_info")));
  view.ascend = true;
  view.busy[0] = 0.304;
  const Exposed got = scrape();
  EXPECT_EQ(got.value("machine_npu_nums"), 8);
  EXPECT_EQ(got.value("npu_chip_info_utilization", {{"id", "0"}}), 30);
  EXPECT_EQ(got.value("npu_chip_info_hbm_used_memory", {{"id", "1"}}), 1);
  EXPECT_EQ(got.value("npu_chip_info_hbm_total_memory", {{"id", "1"}}), 4096);
  EXPECT_EQ(got.value("npu_chip_info_health_status", {{"id", "0"}}), 1);
  EXPECT_EQ(got.value("npu_chip_info_process_info", {{"id", "0"}, {"process_id", "4000"}}), 1);
  EXPECT_THAT(text_, Not(HasSubstr("temperature")));
}

}  // namespace
}  // namespace npu::daemon
