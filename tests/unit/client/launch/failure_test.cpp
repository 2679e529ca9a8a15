#include "client/launch/failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

const Clock::time_point kStart = Clock::now();

RankEnd ended(int rank, ExitStatus status, int after_ms = 0) {
  return {.rank = rank,
          .device = rank,
          .pid = 100 + rank,
          .status = status,
          .ended_at = kStart + milliseconds(after_ms)};
}
RankEnd exited(int rank, int code, int after_ms = 0) {
  return ended(rank, {.by_signal = false, .value = code}, after_ms);
}
RankEnd killed(int rank, int number, int after_ms = 0) {
  return ended(rank, {.by_signal = true, .value = number}, after_ms);
}
ErrorEvent said(const char* message) { return {.code = "aborted", .message = message}; }

TEST(PickCulprit, NobodyWhenAllEndedWell) {
  EXPECT_EQ(pick_culprit(std::vector{exited(0, 0), exited(1, 0)}), std::nullopt);
}

TEST(PickCulprit, SignalIsBlamedEvenIfPeersWereNoticedFirst) {
  EXPECT_EQ(pick_culprit(std::vector{exited(0, 76, 1), killed(1, SIGKILL, 5), exited(2, 69, 2)}),
            1u);
}

TEST(PickCulprit, OwnExitCodeIsBlamedBeforeConsequences) {
  EXPECT_EQ(pick_culprit(std::vector{exited(0, 76, 1), exited(1, 3, 5)}), 1u);
}

TEST(PickCulprit, FirstOfEqualsIsBlamed) {
  EXPECT_EQ(pick_culprit(std::vector{exited(0, 3, 9), exited(1, 4, 5)}), 1u);
}

TEST(PickCulprit, RankThatExplainsItselfIsBlamedBeforeASilentOne) {
  std::vector ends{exited(0, 76, 1), exited(1, 76, 5)};
  ends[1].error = said("rank 3 did not arrive");
  EXPECT_EQ(pick_culprit(ends), 1u);
}

TEST(PickCulprit, RankEndedByTheLauncherIsNeverBlamedBeforeOthers) {
  std::vector ends{killed(0, SIGTERM, 1), exited(1, 76, 5)};
  ends[0].ended_by_us = true;
  EXPECT_EQ(pick_culprit(ends), 1u);
}

TEST(FormatFailure, NamesRankSignalPidDeviceStepAndWhatTheOthersReport) {
  std::vector ends{exited(0, 76, 600), exited(1, 76, 500), killed(2, SIGSEGV),
                   killed(3, SIGTERM, 700)};
  ends[0].error = ends[1].error = said("all_reduce seq 7421: rank 2 (pid 102) died");
  ends[2].last_log = "[loader] decoded img_0312.jpg";
  ends[3].ended_by_us = true;
  const std::string text = format_failure(ends, {2, "epoch 3 step 309", "14:02:17"});
  EXPECT_EQ(
      text,
      "rank 2 failed first: killed by SIGSEGV, pid 102, device 2, epoch 3 step 309, 14:02:17\n"
      "  last log: [loader] decoded img_0312.jpg\n"
      "  ranks 0-1: exit code 76 (peer failed): all_reduce seq 7421: rank 2 (pid 102) died after "
      "0.6 s\n"
      "  rank 3: ended by the launcher after 0.7 s\n"
      "  EI0002: a rank ended while the others needed it; suspect: rank 2; remedy: see its log "
      "above; launch again, the run resumes from its newest checkpoint");
}

TEST(FailureReason, IsOneLineWithRankPidEndAndStep) {
  std::vector ends{exited(0, 76, 600), killed(1, SIGSEGV), exited(2, 74)};
  ends[2].error = said("write failed");
  EXPECT_EQ(failure_reason(ends, {1, "epoch 3 step 309", ""}),
            "rank 1 (pid 101) killed by SIGSEGV, epoch 3 step 309");
  EXPECT_EQ(failure_reason(ends, {2, "epoch 3 step 309", ""}),
            "rank 2 (pid 102) exit code 74, epoch 3 step 309: write failed");
}

TEST(FailureEvent, CarriesWhatTheRankSaidAndHowItEnded) {
  std::vector ends{exited(0, 65)};
  ends[0].error = ErrorEvent{.code = "data_loss", .op = "load", .message = "bad file"};
  const ErrorEvent event = failure_event(ends, {0, "before its first step", ""});
  EXPECT_EQ(event.code, "data_loss");
  EXPECT_EQ(event.message, "bad file");
  EXPECT_EQ(event.exit_code, 65);
  EXPECT_EQ(event.pid, 100);
}

TEST(FailureEvent, KilledRankIsAbortedWithItsShellCode) {
  const ErrorEvent event =
      failure_event(std::vector{killed(0, SIGKILL)}, {0, "epoch 1 step 2", ""});
  EXPECT_EQ(event.code, "aborted");
  EXPECT_EQ(event.exit_code, 137);
  EXPECT_THAT(event.message, HasSubstr("killed by SIGKILL"));
}

}  // namespace
}  // namespace npu::client
