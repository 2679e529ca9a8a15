// The live lines of a real launch on a real terminal: a pseudo terminal and the screen behind it.
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "e2e_fixture.hpp"
#include "tests/support/screen.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A program whose stdin, stdout and stderr are a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(std::vector<std::string> args, std::vector<std::string> env, unsigned short columns,
             unsigned short rows = 24) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid_ == 0) {
      std::vector<char*> argv, envp;
      for (std::string& arg : args) argv.push_back(arg.data());
      for (std::string& variable : env) envp.push_back(variable.data());
      argv.push_back(nullptr);
      envp.push_back(nullptr);
      ::execve(NPU_PATH, argv.data(), envp.data());
      ::_exit(127);
    }
    terminal_.reset(terminal);
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  /// Reads until `text` came by, or to the end; false if it did not, or nothing came for 30 s.
  bool read_until(const std::string& text) {
    pollfd ready{terminal_.get(), POLLIN, 0};
    const size_t from = all_.size();
    char piece[4096];
    while (text.empty() || all_.find(text, from) == std::string::npos) {
      if (::poll(&ready, 1, 30'000) != 1) return false;
      const ssize_t n = ::read(terminal_.get(), piece, sizeof piece);
      if (n <= 0) return false;  // the other end is closed
      all_.append(piece, static_cast<size_t>(n));
    }
    return true;
  }

  void read_what_is_there() {
    pollfd ready{terminal_.get(), POLLIN, 0};
    char piece[4096];
    while (::poll(&ready, 1, 0) == 1) {
      const ssize_t n = ::read(terminal_.get(), piece, sizeof piece);
      if (n <= 0) return;
      all_.append(piece, static_cast<size_t>(n));
    }
  }

  /// Exit code, after everything has been read.
  int end() {
    read_until("");
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void resize(unsigned short columns, unsigned short rows) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    EXPECT_EQ(::ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
  }
  void type(char c) { EXPECT_EQ(::write(terminal_.get(), &c, 1), 1); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::vector<pid_t> children(const std::string& word) const {
    return children_of(pid_, word);
  }
  void kill(int signal) const { ::kill(pid_, signal); }
  [[nodiscard]] const std::string& output() const { return all_; }

 private:
  pid_t pid_ = -1;
  UniqueFd terminal_;
  std::string all_;
};

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
  const auto ranks = sut.children("train");
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
