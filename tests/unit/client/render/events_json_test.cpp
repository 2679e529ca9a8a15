#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/render/events.hpp"
#include "client/render/step_line.hpp"

namespace npu::client {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

StartEvent start_event() {
  return {.run = "r \"quoted\"\n",
          .arch = "resnet20",
          .parameters = 272'474,
          .precision = "fp32",
          .algorithm = "auto",
          .daemon = "/run/npud/npud.sock",
          .data = "Fashion-MNIST",
          .world = 8,
          .devices = {0, 1, 2, 3, 4, 5, 6, 7},
          .global_batch = 256,
          .rank_batch = 32,
          .steps_per_epoch = 235,
          .epochs = 2,
          .eval_every = 5,
          .lr = 0.1,
          .schedule = "cosine",
          .seed = 18'446'744'073'709'551'615u,
          .resumed_step = 3,
          .resumed_from = "step-2",
          .pretrained = "/w.safetensors",

          .warnings = {"one thing differs"}};
}

StepEvent step_event() {
  return {.epoch = 1,
          .step = 255,
          .step_in_epoch = 20,
          .steps_per_epoch = 235,
          .display = false,
          .loss = 0.1,
          .loss_avg = 1.0 / 3,
          .acc1 = 50,
          .acc1_avg = 51.5,
          .acc5 = 90,
          .acc5_avg = 91,
          .lr = 0.05,
          .scale = 65536,
          .img_s = 1000.5,
          .batch_s = 0.25,
          .batch_avg_s = 0.26,
          .data_s = 0.001,
          .data_avg_s = 0.002};
}

TEST(EventsJson, StepNamesTheFieldsScriptsRelyOn) {
  const std::string sut = to_json(step_event());
  EXPECT_THAT(sut, StartsWith(R"({"schema":1,"type":"step","epoch":1,"step":255,"loss":0.1,)"
                              R"("acc1":50.0,"lr":0.05,"scale":65536.0,"img_s":1000.5)"));
  EXPECT_EQ(sut.find('\n'), std::string::npos);
}

TEST(EventsJson, EveryEventComesBackAsItWas) {
  const Event events[] = {
      start_event(),
      step_event(),
      ValStepEvent{
          .epoch = 1, .step_in_epoch = 2, .steps_per_epoch = 3, .display = false, .loss = 1},
      OverflowEvent{.step = 4, .scale = 512},
      EpochEvent{.epoch = 1, .val_acc1 = 86.25, .val_samples = 10'000, .best = true},
      EpochEvent{.val_ema_loss = 0.5, .val_ema_acc1 = 87.5, .val_ema_acc5 = 99},
      CheckpointEvent{.step = 9, .path = "/s/step-9", .bytes = 1u << 30, .stall_ms = 1.5},
      MemoryCheckpointEvent{.step = 9, .bytes = 1u << 30, .stall_ms = 1.5, .copied_ms = 80},
      RestartEvent{.attempt = 1, .reason = "rank 3 died", .step = 9},
      WarningEvent{.step = 9, .message = "checkpoint of step 9 failed"},
      ErrorEvent{.code = "aborted",
                 .exit_code = 76,
                 .rank = 3,
                 .pid = 42,
                 .op = "all_reduce",
                 .seq = 7,
                 .message = "peer died"},
      DoneEvent{.epochs = 2, .steps = 470, .checkpoint = "/s/step-470", .weights_digest = "ab"}};
  for (const Event& event : events) {
    const std::string line = to_json(event);
    const auto back = event_from_json(line);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->index(), event.index());
    EXPECT_EQ(to_json(*back), line);
  }
}

TEST(StepLine, IsTheSameStepAsToJson) {
  StepEvent odd = step_event();
  odd.loss = std::numeric_limits<double>::quiet_NaN();
  odd.lr = 5e-324;
  odd.img_s = -std::numeric_limits<double>::max();
  odd.loss_avg = -1.7976931348623157e-308;
  odd.step = std::numeric_limits<int64_t>::min();
  for (const StepEvent& step : {step_event(), odd, StepEvent{}}) {
    const StepLine sut(step);
    ASSERT_TRUE(sut.text().ends_with("}\n"));
    const auto got = event_from_json(sut.text());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(to_json(*got), to_json(step));
  }
}

TEST(StepLine, HoldsTheLongestStep) {
  StepEvent step;
  for (double* value : {&step.loss, &step.loss_avg, &step.acc1, &step.acc1_avg, &step.acc5,
                        &step.acc5_avg, &step.lr, &step.scale, &step.img_s, &step.batch_s,
                        &step.batch_avg_s, &step.data_s, &step.data_avg_s}) {
    *value = -1.2345678901234567e-300;
  }
  step.step = step.step_in_epoch = step.steps_per_epoch = std::numeric_limits<int64_t>::min();
  step.epoch = std::numeric_limits<int>::min();
  const StepLine sut(step);
  EXPECT_TRUE(sut.text().ends_with("}\n")) << sut.text();
}

TEST(EventsJson, TypeNamesAreTheStableOnes) {
  const std::pair<Event, const char*> cases[] = {{StartEvent{}, "start"},
                                                 {StepEvent{}, "step"},
                                                 {ValStepEvent{}, "val_step"},
                                                 {OverflowEvent{}, "overflow"},
                                                 {EpochEvent{}, "epoch"},
                                                 {CheckpointEvent{}, "checkpoint"},
                                                 {RestartEvent{}, "restart"},
                                                 {ErrorEvent{}, "error"},
                                                 {DoneEvent{}, "done"},
                                                 {WarningEvent{}, "warning"},
                                                 {MemoryCheckpointEvent{}, "memory_checkpoint"}};
  for (const auto& [event, name] : cases) {
    EXPECT_THAT(to_json(event), HasSubstr(fmt::format(R"("type":"{}")", name)));
  }
}

TEST(EventsJson, NonFiniteNumbersBecomeNullAndReturnAsNan) {
  StepEvent step = step_event();
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.loss_avg = std::numeric_limits<double>::infinity();
  const std::string line = to_json(step);
  EXPECT_THAT(line, HasSubstr(R"("loss":null)"));
  EXPECT_THAT(line, HasSubstr(R"("loss_avg":null)"));
  const auto back = event_from_json(line);
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::isnan(std::get<StepEvent>(*back).loss));
}

TEST(EventsJson, AbsentResumeFieldsStayAbsent) {
  StartEvent start = start_event();
  start.resumed_step.reset();
  start.pretrained.reset();
  const std::string line = to_json(start);
  EXPECT_THAT(line, Not(HasSubstr("resumed_step")));
  EXPECT_THAT(line, Not(HasSubstr("pretrained")));
  const auto back = event_from_json(line);
  ASSERT_TRUE(back);
  EXPECT_FALSE(std::get<StartEvent>(*back).resumed_step.has_value());
}

TEST(EventsJson, BytesThatAreNotUtf8DoNotLoseTheRecord) {
  const std::string line = to_json(ErrorEvent{.message = "open '\xff\xfe'"});
  EXPECT_TRUE(event_from_json(line));
}

TEST(EventsJson, GarbageIsDataLossThatQuotesAtMost200Characters) {
  for (const std::string& line :
       {std::string("{"), std::string("[]"), std::string(R"({"schema":1})"),
        std::string(R"({"schema":2,"type":"step"})"), std::string(R"({"schema":1,"type":"nope"})"),
        std::string(R"({"schema":1,"type":"step","epoch":"three"})"), std::string(5000, 'x')}) {
    const auto result = event_from_json(line);
    ASSERT_FALSE(result) << line;
    EXPECT_EQ(result.error().code, Code::kDataLoss);
    EXPECT_LT(result.error().message.size(), 600u);
  }
}

}  // namespace
}  // namespace npu::client
