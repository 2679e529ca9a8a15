// The live lines of a real launch on a real terminal: a pseudo terminal and the screen behind it.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"
#include "tests/support/on_terminal.hpp"
#include "tests/support/screen.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::OnTerminal;

class TerminalTest : public E2eTest {
 protected:
  std::vector<std::string> line(const std::vector<std::string>& sets) {
    std::vector<std::string> args = {"npu", "launch", job()};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return args;
  }
  std::vector<std::string> environment(const std::string& term, bool colour = true) {
    auto env = env_;
    env.push_back("TERM=" + term);
    if (!colour) env.emplace_back("NO_COLOR=1");
    return env;
  }
};

// The last lines that are live are the bar, and there must not be any once the job is over.
void expect_clean(const test::Screen& screen) {
  EXPECT_EQ(screen.unknown(), "");
  for (const std::string& text : screen.lines()) {
    EXPECT_THAT(text, Not(testing::StartsWith("epoch 1/2 ["))) << screen.text();
    EXPECT_THAT(text, Not(HasSubstr(" img/s  data "))) << screen.text();
  }
}

class WidthTest : public TerminalTest, public testing::WithParamInterface<int> {};

TEST_P(WidthTest, LiveLinesFitAndAreGoneAtTheEnd) {
  const int columns = GetParam();
  OnTerminal sut(line({"train.print_freq=4"}), environment("xterm"),
                 static_cast<unsigned short>(columns));
  ASSERT_EQ(sut.end(), 0) << sut.output();
  EXPECT_THAT(sut.output(), HasSubstr("epoch 1/2 "));
  EXPECT_THAT(sut.output(), HasSubstr("\x1b[36m"));
  test::Screen screen(columns, 24);
  screen.feed(sut.output());
  expect_clean(screen);
  EXPECT_THAT(screen.text(), HasSubstr("Epoch: [0]"));
  EXPECT_THAT(screen.text(), HasSubstr("   verified"));
}
INSTANTIATE_TEST_SUITE_P(Columns, WidthTest, testing::Values(80, 55, 40),
                         testing::PrintToStringParamName());

TEST_F(TerminalTest, NoColorIsHonoured) {
  OnTerminal sut(line({"train.epochs=1"}), environment("xterm", false), 80);
  ASSERT_EQ(sut.end(), 0) << sut.output();
  EXPECT_THAT(sut.output(), HasSubstr("epoch 1/1 ["));
  EXPECT_THAT(sut.output(), Not(HasSubstr("\x1b[36m")));
}

TEST_F(TerminalTest, DumbTerminalGetsPlainLines) {
  OnTerminal sut(line({"train.epochs=1"}), environment("dumb"), 80);
  ASSERT_EQ(sut.end(), 0) << sut.output();
  EXPECT_THAT(sut.output(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sut.output(), HasSubstr("Epoch: [0]"));
}

TEST_F(TerminalTest, NewSizeIsTakenWhileTheJobRuns) {
  OnTerminal sut(line({"train.epochs=1000", "train.print_freq=100000"}), environment("xterm"), 100);
  ASSERT_TRUE(sut.read_until(" img/s  data "));
  sut.resize(40, 6);
  ASSERT_TRUE(sut.read_until("\x1b[J"));
  const size_t before = sut.output().size();
  ASSERT_TRUE(sut.read_until("epoch "));
  ASSERT_TRUE(sut.read_until("\x1b[J"));
  sut.type('\x03');
  EXPECT_EQ(sut.end(), 80);
  // One line in a low window, and nothing wider than it.
  EXPECT_THAT(sut.output().substr(before), Not(HasSubstr(" img/s  data ")));
}

TEST_F(TerminalTest, InterruptLeavesTheScreenClean) {
  OnTerminal sut(line({"train.epochs=1000"}), environment("xterm"), 80);
  ASSERT_TRUE(sut.read_until(" img/s  data "));
  sut.type('\x03');
  EXPECT_EQ(sut.end(), 80);
  test::Screen screen(80, 24);
  screen.feed(sut.output());
  EXPECT_THAT(screen.text(), HasSubstr("npu launch: interrupted"));
  EXPECT_THAT(screen.text(), Not(HasSubstr(" img/s  data ")));
  EXPECT_THAT(screen.text(), Not(HasSubstr("epoch 1/1000 [")));
}

TEST_F(TerminalTest, FailureLeavesTheScreenClean) {
  OnTerminal sut(line({"train.epochs=1000", "name=mortal"}), environment("xterm"), 80);
  ASSERT_TRUE(sut.read_until(" img/s  data "));
  const auto ranks = children_of(sut.pid(), "train");
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(sut.end(), 128 + SIGKILL);
  test::Screen screen(80, 24);
  screen.feed(sut.output());
  EXPECT_THAT(screen.text(), HasSubstr("rank 1 failed first"));
  EXPECT_THAT(screen.text(), Not(HasSubstr(" img/s  data ")));
  EXPECT_THAT(screen.text(), Not(HasSubstr("epoch 1/1000 [")));
}

TEST_F(TerminalTest, SuspendedJobLeavesTheScreenCleanAndComesBack) {
  OnTerminal sut(line({"train.epochs=1000", "train.print_freq=100000"}), environment("xterm"), 80);
  ASSERT_TRUE(sut.read_until(" img/s  data "));
  sut.type('\x1a');
  int status = 0;
  ASSERT_EQ(::waitpid(sut.pid(), &status, WUNTRACED), sut.pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  sut.read_what_is_there();
  test::Screen screen(80, 24);
  screen.feed(sut.output());
  EXPECT_THAT(screen.text(), Not(HasSubstr(" img/s  data ")));
  sut.kill(SIGCONT);
  EXPECT_TRUE(sut.read_until(" img/s  data "));
  sut.type('\x03');
  EXPECT_EQ(sut.end(), 80);
}

TEST_F(TerminalTest, SkewIsShownOnceItIsKnown) {
  OnTerminal sut(line({"train.epochs=1000", "train.print_freq=100000"}), environment("xterm"), 120);
  EXPECT_TRUE(sut.read_until("last rank ")) << sut.output();
  sut.kill(SIGTERM);
  EXPECT_EQ(sut.end(), 80);
}

}  // namespace
}  // namespace npu::e2e
