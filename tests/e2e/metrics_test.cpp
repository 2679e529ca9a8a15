// A job trains and its metrics move with it: what rank 0 says, what the engine counts, checkpoints, a restart.
#include <gmock/gmock.h>

#include <functional>

#include "client/api/admin.hpp"
#include "e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/exposition.hpp"
#include "tests/support/scrape.hpp"

namespace npu::e2e {
namespace {

using test::Exposed;
using testing::IsEmpty;

class MetricsTest : public E2eTest {
 protected:
  MetricsTest() { use_daemon(daemon_.socket()); }

  Exposed scrape() { return test::scrape(daemon_.socket()); }

  /// Scrapes until `condition` holds.
  Exposed scrape_until(const std::function<bool(const Exposed&)>& condition) {
    Exposed got;
    EXPECT_TRUE(holds_within(milliseconds(30'000), [&] {
      got = scrape();
      return condition(got);
    }));
    return got;
  }

  static double all_reduces(const Exposed& e) {
    return e.sum("npud_collective_ops_total", {{"op", "all-reduce"}, {"result", "ok"}});
  }

  // 64 steps an epoch.
  const std::vector<std::string> longer_ = {"data.train_samples=2048", "train.epochs=4", "precision.amp=true",
                                            "precision.loss_scale=dynamic"};
  test::DaemonProcess daemon_;
};

TEST_F(MetricsTest, TheValuesOfATrainingJobMove) {
  const Exposed before = scrape();
  Background running(env_, job(), longer_);
  const Exposed first = scrape_until([](const Exposed& e) { return e.sum("npud_run_samples_total") > 0; });
  EXPECT_EQ(first.value("npud_run_info", {{"run", "tiny"}, {"arch", "resnet8"}, {"world_size", "4"}}), 1);
  EXPECT_EQ(first.sum("npud_device_attached", {{"run", "tiny"}}), 4);
  const double step = first.value("npud_run_step", {{"run", "tiny"}}).value_or(0);
  const Exposed later = scrape_until([&](const Exposed& e) {
    return e.value("npud_run_step", {{"run", "tiny"}}).value_or(0) > step && all_reduces(e) > all_reduces(first) &&
           e.value("npud_run_accuracy_ratio", {{"split", "val"}, {"topk", "1"}}).has_value() &&
           e.sum("npud_checkpoint_total", {{"result", "ok"}}) > 0;
  });
  EXPECT_GT(all_reduces(later), all_reduces(before));
  EXPECT_GT(later.sum("npud_run_samples_total"), first.sum("npud_run_samples_total"));
  EXPECT_GT(later.value("npud_run_loss", {{"split", "train"}}).value_or(0), 0);
  EXPECT_GT(later.value("npud_run_loss", {{"split", "val"}}).value_or(0), 0);
  EXPECT_GE(later.value("npud_run_epoch", {{"run", "tiny"}}).value_or(0), 0);
  EXPECT_GT(later.value("npud_run_learning_rate").value_or(0), 0);
  EXPECT_GE(later.value("npud_run_loss_scale").value_or(0), 1);
  EXPECT_GT(later.sum("npud_device_busy_seconds_total", {{"kind", "reduce"}}), 0);
  EXPECT_GT(later.sum("npud_collective_bytes_total", {{"op", "all-reduce"}}), 0);
  EXPECT_GT(later.value("npud_checkpoint_last_size_bytes").value_or(0), 10'000);
  EXPECT_GT(later.value("npud_checkpoint_last_success_timestamp_seconds").value_or(0), 1e9);
  EXPECT_GE(later.value("npud_checkpoint_duration_seconds_count").value_or(0), 1);
  running.read_until("nothing of this kind");
  EXPECT_EQ(running.wait(), 0) << running.err();
  const Exposed after = scrape_until([](const Exposed& e) {
    return e.value("npud_runs_total", {{"result", "completed"}}).value_or(0) == 1;
  });
  for (const char* name : {"npud_run_info", "npud_run_step", "npud_run_loss", "npud_checkpoint_total",
                           "npud_collective_last_arrival_total"}) {
    EXPECT_THAT(after.families.at(name).samples, IsEmpty()) << name;
  }
  EXPECT_EQ(after.sum("npud_device_detach_total", {{"reason", "clean"}}), 4);
  EXPECT_EQ(after.sum("npud_runs"), 0);
}

TEST_F(MetricsTest, ARestartedRunGoesOnCounting) {
  std::vector<std::string> sets = longer_;
  sets.push_back("checkpoint.every_steps=8");
  Background running(env_, job(), sets, {"--max-restarts", "2", "--restart-backoff", "0.1"});
  const Exposed first = scrape_until([](const Exposed& e) {
    return e.sum("npud_checkpoint_total", {{"result", "ok"}}) >= 2;
  });
  EXPECT_GE(first.value("npud_checkpoint_interval_seconds").value_or(-1), 0);
  EXPECT_EQ(first.value("npud_run_restarts_total", {{"run", "tiny"}}), 0);
  const auto ranks = running.children("train");
  ASSERT_FALSE(ranks.empty());
  ::kill(ranks.back(), SIGKILL);
  const Exposed again = scrape_until([](const Exposed& e) {
    return e.value("npud_run_restarts_total", {{"run", "tiny"}}).value_or(0) == 1 &&
           e.sum("npud_run_samples_total") > 0;
  });
  EXPECT_GE(again.sum("npud_checkpoint_total", {{"result", "ok"}}),
            first.sum("npud_checkpoint_total", {{"result", "ok"}}));
  EXPECT_EQ(again.value("npud_runs_total", {{"result", "failed"}}), 1);
  running.read_until("nothing of this kind");
  EXPECT_EQ(running.wait(), 0) << running.err();
}

}  // namespace
}  // namespace npu::e2e
