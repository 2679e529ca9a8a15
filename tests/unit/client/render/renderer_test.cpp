#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "client/render/json_renderer.hpp"
#include "client/render/text_renderer.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {
namespace {

using testing::HasSubstr;
using testing::Not;

// A file in memory that stands for stdout or stderr.
class Capture {
 public:
  Capture() : fd_(::memfd_create("capture", MFD_CLOEXEC)) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string text() const {
    std::string all(static_cast<size_t>(::lseek(fd(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  UniqueFd fd_;
};

StepEvent step(bool display) {
  return {.step = 1, .step_in_epoch = 1, .steps_per_epoch = 10, .display = display, .loss = 2};
}

TEST(TextRenderer, PipedOutputHoldsLinesAndNoControlCharacters) {
  Capture out, err;
  TextRenderer sut({.out_fd = out.fd(), .err_fd = err.fd()});
  sut.on_event(StartEvent{.run = "r", .epochs = 1});
  sut.on_event(step(true));
  sut.on_event(step(false));
  sut.on_event(DoneEvent{});
  EXPECT_THAT(out.text(), HasSubstr("Epoch: [0][ 1/10]\t"));
  EXPECT_THAT(out.text(), Not(HasSubstr("\r")));
  EXPECT_THAT(out.text(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(out.text(), Not(HasSubstr("ETA")));
  EXPECT_EQ(err.text(), "");
}

TEST(TextRenderer, LiveLineIsErasedBeforeALogLineAndDrawnAgainAfterIt) {
  Capture both;
  TextRenderer sut(
      {.out_fd = both.fd(), .err_fd = both.fd(), .traits = {.live = true}, .columns = 80});
  sut.on_event(step(false));
  const size_t before = both.text().size();
  sut.log_line(LogStream::kStderr, "[rank 3] hello");
  EXPECT_THAT(both.text().substr(before),
              testing::StartsWith("\r\x1b[K[rank 3] hello\n\repoch 1/0"));
}

TEST(TextRenderer, FinishLeavesNoLiveLine) {
  Capture out, err;
  TextRenderer sut(
      {.out_fd = out.fd(), .err_fd = err.fd(), .traits = {.live = true}, .columns = 80});
  sut.on_event(step(false));
  sut.finish();
  EXPECT_THAT(out.text(), testing::EndsWith("\r\x1b[K"));
}

TEST(TextRenderer, LiveLineIsNotRedrawnFasterThanAsked) {
  Capture out, err;
  TextRenderer sut({.out_fd = out.fd(),
                    .err_fd = err.fd(),
                    .traits = {.live = true},
                    .columns = 80,
                    .redraw_every = std::chrono::hours(1)});
  sut.on_event(step(false));
  const size_t once = out.text().size();
  for (int i = 0; i < 100; ++i) sut.on_event(step(false));
  EXPECT_EQ(out.text().size(), once);
}

TEST(TextRenderer, ColourOnlyWhenAllowed) {
  Capture plain, colour, err;
  TextRenderer a(
      {.out_fd = plain.fd(), .err_fd = err.fd(), .traits = {.live = true}, .columns = 80});
  TextRenderer b({.out_fd = colour.fd(),
                  .err_fd = err.fd(),
                  .traits = {.live = true, .colour = true},
                  .columns = 80});
  a.on_event(step(false));
  b.on_event(step(false));
  EXPECT_THAT(plain.text(), Not(HasSubstr("\x1b[36m")));
  EXPECT_THAT(colour.text(), HasSubstr("\x1b[36m"));
}

TEST(TextRenderer, ReaderThatWentAwayIsReportedOnceAndNeverFatal) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd write_end(ends[1]);
  UniqueFd(ends[0]).reset();
  Capture err;
  TextRenderer sut({.out_fd = write_end.get(), .err_fd = err.fd()});
  sut.on_event(step(true));
  sut.on_event(step(true));
  EXPECT_THAT(err.text(), HasSubstr("warning: write to stdout"));
  EXPECT_EQ(err.text().find("warning"), err.text().rfind("warning"));
}

TEST(Output, InterruptEndsTheWaitForAReaderThatDoesNotRead) {
  int data[2], stop[2];
  ASSERT_EQ(::pipe2(data, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(stop, O_CLOEXEC), 0);
  const UniqueFd d0(data[0]), d1(data[1]), s0(stop[0]), s1(stop[1]);
  Output sut(d1.get());
  sut.set_interrupt(s0.get());
  std::thread interrupter([&] { EXPECT_EQ(::write(s1.get(), "x", 1), 1); });
  sut.write(std::string(1 << 20, 'x'));  // far more than the pipe holds, and nobody reads
  interrupter.join();
  EXPECT_EQ(sut.broken(), 0);
}

TEST(JsonRenderer, StdoutHoldsOnlyObjectsAndEverythingElseGoesToStderr) {
  Capture out, err;
  JsonRenderer sut(out.fd(), err.fd());
  sut.on_event(step(false));
  sut.on_event(ValStepEvent{.display = false});
  sut.log_line(LogStream::kStdout, "[rank 0] text");
  sut.notice("a remark");
  EXPECT_THAT(out.text(), testing::MatchesRegex("\\{[^\n]*\"type\":\"step\"[^\n]*\\}\n"));
  EXPECT_EQ(err.text(), "[rank 0] text\na remark\n");
}

TEST(JsonSink, WritesOneParsableLineAnEvent) {
  Capture out;
  JsonSink sut(out.fd());
  sut.on_event(OverflowEvent{.step = 5, .scale = 512});
  const std::string text = out.text();
  ASSERT_THAT(text, testing::EndsWith("\n"));
  EXPECT_TRUE(event_from_json(text.substr(0, text.size() - 1)));
}

}  // namespace
}  // namespace npu::client
