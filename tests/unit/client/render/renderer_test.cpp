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
#include "tests/support/screen.hpp"

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

// A terminal adds the carriage return to a newline that has none.
std::string as_tty(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) {
    if (at == 0 || text[at - 1] != '\r') text.insert(at++, 1, '\r');
  }
  return text;
}

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
              testing::StartsWith("\r\x1b[2A\x1b[J[rank 3] hello\n\repoch 1/0"));
}

TEST(TextRenderer, FinishLeavesNoLiveLine) {
  Capture out, err;
  TextRenderer sut(
      {.out_fd = out.fd(), .err_fd = err.fd(), .traits = {.live = true}, .columns = 80});
  sut.on_event(step(false));
  sut.finish();
  EXPECT_THAT(out.text(), testing::EndsWith("\r\x1b[2A\x1b[J"));
}

// What a terminal shows in the end is what a pipe would have got, whatever was live in between.
TEST(TextRenderer, ScreenInTheEndHoldsTheLinesOfAPipe) {
  const auto job = [](int fd, bool live, int columns) {
    TextRenderer sut({.out_fd = fd,
                      .err_fd = fd,
                      .traits = {.live = live, .colour = live},
                      .columns = columns,
                      .redraw_every = milliseconds(0)});
    sut.on_event(StartEvent{.run = "r", .epochs = 2});
    for (int i = 1; i <= 10; ++i) {
      StepEvent e = step(i % 3 == 0);
      e.step_in_epoch = i;
      sut.on_event(e);
      if (i == 5) sut.hide();
      if (i == 6) sut.notice("a remark");
      sut.refresh();
    }
    sut.on_event(ValStepEvent{.step_in_epoch = 1, .steps_per_epoch = 2, .display = false});
    sut.on_event(EpochEvent{});
    sut.on_event(DoneEvent{});
  };
  for (const int columns : {40, 57, 80, 200}) {
    Capture live, plain;
    job(live.fd(), true, columns);
    job(plain.fd(), false, columns);
    test::Screen got(columns, 24), want(columns, 24);
    got.feed(as_tty(live.text()));
    want.feed(as_tty(plain.text()));
    EXPECT_EQ(got.text(), want.text()) << columns;
    EXPECT_EQ(got.unknown(), "");
    EXPECT_EQ(got.column(), 0u);
  }
}

TEST(TextRenderer, AsksForTheSkewOnceASecondAndShowsIt) {
  Capture out, err;
  int asked = 0;
  TextRenderer sut({.out_fd = out.fd(),
                    .err_fd = err.fd(),
                    .traits = {.live = true},
                    .columns = 100,
                    .redraw_every = milliseconds(0),
                    .skew = [&](const StartEvent& start) {
                      ++asked;
                      EXPECT_EQ(start.run, "r");
                      return RankSkew{.last = 3, .share = 0.5, .lag_ms = 1.25};
                    }});
  sut.on_event(StartEvent{.run = "r"});
  EXPECT_EQ(asked, 0);
  sut.on_event(step(false));
  sut.on_event(step(false));
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(out.text(), HasSubstr("last rank 3 (50 %, 1.2 ms)"));
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
