#include "client/record/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/record/curves.hpp"
#include "client/record/rows.hpp"
#include "client/record/tfevents.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RecorderTest : public testing::Test {
 protected:
  std::unique_ptr<Recorder> recorder(bool tensorboard = false) {
    return std::make_unique<Recorder>(
        RecorderOptions{.folder = folder_,
                        .tensorboard = tensorboard,
                        .now = [this] { return now_ += 0.25; },
                        .warn = [this](const std::string& text) { warnings_.push_back(text); }});
  }

  static StepEvent step(int64_t n) {
    return {
        .epoch = static_cast<int>((n - 1) / 4), .step = n, .loss = 10.0 / static_cast<double>(n)};
  }

  /// What a launch sends: steps from `first`, an epoch every four steps.
  static void steps(Recorder& sut, int64_t first, int64_t last) {
    StartEvent start{.run = "r"};
    if (first > 1) start.resumed_step = first;
    sut.on_event(start);
    for (int64_t n = first; n <= last; ++n) {
      sut.on_event(step(n));
      if (n % 4 == 0)
        sut.on_event(EpochEvent{.epoch = static_cast<int>(n / 4) - 1, .val_samples = 1});
    }
  }

  std::string text(const std::string& name) const {
    return *read_file(folder_ + '/' + name, 1 << 20);
  }
  RunCurves curves() const { return *read_curves(folder_, "r"); }

  std::vector<std::string> event_files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("events.out.tfevents.")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }

  test::TempDir dir_;
  std::string folder_ = dir_.path() + "/runs/r";
  std::vector<std::string> warnings_;
  double now_ = 1'700'000'000;
};

TEST_F(RecorderTest, LeavesARowAStepAndARowAnEpoch) {
  auto sut = recorder();
  steps(*sut, 1, 8);
  sut->on_event(DoneEvent{.steps = 8, .weights_digest = "ab"});
  EXPECT_EQ(curves().steps.rows.size(), 8u);
  EXPECT_EQ(curves().epochs.rows.size(), 2u);
  EXPECT_TRUE(text("steps.csv").starts_with(std::string(kStepHeader) + "\n1,"));
  EXPECT_THAT(warnings_, testing::IsEmpty());
  const auto summary = nlohmann::json::parse(text("summary.json"));
  EXPECT_EQ(summary["state"], "done");
  EXPECT_EQ(summary["end"]["weights_digest"], "ab");
  EXPECT_EQ(summary["epoch"]["epoch"], 1);
}

TEST_F(RecorderTest, EveryLineOfBothJsonFilesIsAnObject) {
  auto sut = recorder();
  steps(*sut, 1, 8);
  sut.reset();
  size_t lines = 0;
  for (const char* name : {"metrics.jsonl", "events.jsonl"}) {
    std::istringstream in(text(name));
    for (std::string line; std::getline(in, line); ++lines) {
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    }
  }
  EXPECT_EQ(lines, 8 * 8 + 2 * 7 + 3u);  // metrics of steps and epochs, then start and epochs
}

TEST_F(RecorderTest, WhatIsWrittenIsThereAtTheEpochWithoutAnEnd) {
  auto sut = recorder();
  steps(*sut, 1, 4);
  EXPECT_EQ(curves().steps.rows.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(text("summary.json"))["state"], "running");
}

TEST_F(RecorderTest, ResumeAppendsBehindAMarker) {
  auto first = recorder();
  steps(*first, 1, 6);
  first.reset();
  auto second = recorder();
  steps(*second, 5, 8);
  second.reset();
  const std::string csv = text("steps.csv");
  EXPECT_EQ(csv.find(kStepHeader), csv.rfind(kStepHeader));
  EXPECT_THAT(csv, HasSubstr("\n# restart next_step=5 timestamp="));
  const Table table = curves().steps;
  ASSERT_EQ(table.rows.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(table.rows[i][0], static_cast<double>(i + 1));
  EXPECT_EQ(curves().epochs.rows.size(), 2u);
  EXPECT_THAT(text("metrics.jsonl"), HasSubstr(R"("name":"restart","value":5,)"));
}

TEST_F(RecorderTest, RunThatBeginsAnewTakesTheOldOneBack) {
  for (int i = 0; i < 2; ++i) {
    auto sut = recorder();
    steps(*sut, 1, 4);
  }
  EXPECT_EQ(curves().steps.rows.size(), 4u);
  EXPECT_EQ(curves().epochs.rows.size(), 1u);
}

TEST_F(RecorderTest, RestartInsideOneLaunchAppendsBehindAMarker) {
  auto sut = recorder(true);
  steps(*sut, 1, 6);
  sut->on_event(ErrorEvent{.code = "aborted", .message = "rank 3 died"});
  sut->on_event(RestartEvent{.attempt = 1, .reason = "rank 3 died", .step = 4});
  EXPECT_EQ(nlohmann::json::parse(text("summary.json"))["state"], "running");
  steps(*sut, 5, 8);
  sut->on_event(DoneEvent{.steps = 8});
  sut.reset();
  const Table table = curves().steps;
  ASSERT_EQ(table.rows.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(table.rows[i][0], static_cast<double>(i + 1));
  EXPECT_EQ(curves().epochs.rows.size(), 2u);
  EXPECT_THAT(text("metrics.jsonl"), HasSubstr(R"("name":"restart","value":5,)"));
  EXPECT_THAT(text("events.jsonl"), HasSubstr(R"("type":"restart","attempt":1)"));
  EXPECT_EQ(event_files().size(), 2u);
  const auto summary = nlohmann::json::parse(text("summary.json"));
  EXPECT_EQ(summary["restarts"], 1);
  EXPECT_EQ(summary["state"], "done");
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(RecorderTest, RestartLosesNothingThatWasTold) {
  auto sut = recorder();
  steps(*sut, 1, 5);  // no epoch since the last flush but the fourth step's
  sut->on_event(StartEvent{.run = "r", .resumed_step = 6});
  sut->on_event(step(6));
  sut.reset();
  EXPECT_EQ(curves().steps.rows.size(), 6u);
  EXPECT_EQ(curves().epochs.rows.size(), 1u);
  EXPECT_THAT(text("metrics.jsonl"), HasSubstr(R"("global_step":5)"));
}

TEST_F(RecorderTest, JobThatNeverStartedLeavesNothing) {
  auto sut = recorder();
  sut->on_event(ErrorEvent{.message = "no"});
  sut.reset();
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(RecorderTest, FailureIsInTheSummary) {
  auto sut = recorder();
  steps(*sut, 1, 2);
  sut->on_event(ErrorEvent{.code = "aborted", .message = "rank 3 died"});
  const auto summary = nlohmann::json::parse(text("summary.json"));
  EXPECT_EQ(summary["state"], "failed");
  EXPECT_EQ(summary["end"]["message"], "rank 3 died");
  EXPECT_EQ(summary["steps"], 2);
}

TEST_F(RecorderTest, FolderThatCannotBeMadeIsOneWarning) {
  std::ofstream(dir_.path() + "/runs") << "a file where a folder should be";
  auto sut = recorder(true);
  steps(*sut, 1, 8);
  sut.reset();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr(folder_));
}

TEST_F(RecorderTest, FullDiskIsOneWarning) {
  for (const char* name : {"steps.csv", "metrics.jsonl", "epochs.csv"}) {
    warnings_.clear();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::create_symlink("/dev/full", folder_ + '/' + name);
    auto sut = recorder();
    steps(*sut, 1, 8);
    sut->on_event(DoneEvent{});
    sut.reset();
    ASSERT_EQ(warnings_.size(), 1u) << name;
    EXPECT_THAT(warnings_[0], HasSubstr("No space left on device"));
  }
}

TEST_F(RecorderTest, TensorboardFilesHoldTheCurvesAndAStartAfterAResume) {
  auto first = recorder(true);
  steps(*first, 1, 6);
  first.reset();
  auto second = recorder(true);
  steps(*second, 5, 8);
  second.reset();
  const auto names = event_files();
  ASSERT_EQ(names.size(), 2u);
  const auto a = read_tf_events(text(names[0])), b = read_tf_events(text(names[1]));
  ASSERT_TRUE(a && b);
  ASSERT_GE(b->events.size(), 2u);
  EXPECT_EQ(a->events[0].what, decltype(TfEvent::what)(TfVersion{}));
  EXPECT_EQ(b->events[1].what, decltype(TfEvent::what)(TfSessionStart{}));
  EXPECT_EQ(b->events[1].step, 5);
  std::map<std::string, int> tags;
  for (const TfEvent& event : a->events) {
    if (const auto* scalar = std::get_if<TfScalar>(&event.what)) ++tags[scalar->tag];
  }
  EXPECT_EQ(tags, (std::map<std::string, int>{{"Accuracy/train", 6},
                                              {"Accuracy/val", 1},
                                              {"Accuracy/val_top5", 1},
                                              {"Loss/train", 6},
                                              {"Loss/val", 1},
                                              {"lr", 6},
                                              {"scale", 6},
                                              {"throughput", 6}}));
}

}  // namespace
}  // namespace npu::client
