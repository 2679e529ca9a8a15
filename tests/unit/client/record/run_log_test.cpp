#include "client/record/run_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "client/record/log_reader.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::client {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class RunLogTest : public testing::Test {
 protected:
  std::unique_ptr<RunLog> log(uint64_t file_bytes = kLogFileBytes) {
    return std::make_unique<RunLog>(
        RunLogOptions{.folder = folder_,
                      .now =
                          [this] {
                            now_ += microseconds(1);
                            return std::chrono::system_clock::time_point(now_);
                          },
                      .file_bytes = file_bytes,
                      .warn = [this](const std::string& text) { warnings_.push_back(text); }});
  }

  std::string text(const std::string& name) const {
    return *read_file(folder_ + "/logs/" + name, 1 << 20);
  }

  static std::vector<std::string> texts(const std::vector<LogLine>& lines) {
    std::vector<std::string> out;
    for (const LogLine& line : lines) out.push_back(line.text);
    return out;
  }

  std::vector<LogLine> read_all(std::optional<int> source = {}) const {
    auto reader = LogReader::open(folder_, source);
    EXPECT_TRUE(reader);
    auto lines = reader->read(true);
    EXPECT_TRUE(lines);
    return *lines;
  }

  test::TempDir dir_;
  std::string folder_ = dir_.path() + "/runs/r";
  std::vector<std::string> warnings_;
  microseconds now_{1'764'590'400'000'000};  // 2025-12-01T12:00:00Z
};

TEST_F(RunLogTest, NothingIsMadeBeforeTheRunStartsOrARankSpeaks) {
  auto sut = log();
  sut->launcher(LogStream::kStderr, "npu launch: a private daemon");
  EXPECT_FALSE(fs::exists(folder_));
  sut->rank(3, LogStream::kStderr, "oops");
  EXPECT_EQ(text("launch.log"), "2025-12-01T12:00:00.000001Z err npu launch: a private daemon\n");
  EXPECT_EQ(text("rank-3.log"), "2025-12-01T12:00:00.000002Z err oops\n");
}

TEST_F(RunLogTest, EventsAreKeptAsAPersonReadsThem) {
  auto sut = log();
  sut->event(StartEvent{.run = "r"});
  sut->event(StepEvent{.step = 1, .display = false});
  sut->event(WarningEvent{.message = "careful"});
  const auto lines = texts(read_all());
  EXPECT_THAT(lines.front(), HasSubstr("run 'r'"));
  EXPECT_EQ(lines.back(), "warning: careful");
  EXPECT_THAT(text("launch.log"), testing::Not(HasSubstr("Epoch")));
}

TEST_F(RunLogTest, LinesOfAllSourcesComeBackInTheOrderOfTime) {
  auto sut = log();
  sut->rank(1, LogStream::kStdout, "one");
  sut->launcher(LogStream::kStderr, "two\nthree");
  sut->rank(0, LogStream::kStderr, "four");
  const auto lines = read_all();
  EXPECT_THAT(texts(lines), ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(lines[0].source, 1);
  EXPECT_EQ(lines[1].source, kLauncher);
  EXPECT_EQ(lines[3].stream, LogStream::kStderr);
  EXPECT_THAT(texts(read_all(0)), ElementsAre("four"));
}

TEST_F(RunLogTest, FileIsRotatedOnceAndStaysBounded) {
  auto sut = log(200);
  for (int i = 0; i < 100; ++i) sut->rank(0, LogStream::kStdout, fmt::format("line {}", i));
  EXPECT_LE(fs::file_size(folder_ + "/logs/rank-0.log"), 200u);
  EXPECT_LE(fs::file_size(folder_ + "/logs/rank-0.log.1"), 200u);
  const auto lines = texts(read_all());
  EXPECT_GE(lines.size(), 6u);
  EXPECT_EQ(lines.back(), "line 99");
  EXPECT_EQ(lines.front(), fmt::format("line {}", 100 - lines.size()));
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(RunLogTest, ReaderThatFollowsLosesNothingWhenFilesAreRotated) {
  auto sut = log(300);
  sut->rank(0, LogStream::kStdout, "line 0");
  auto reader = LogReader::open(folder_, std::nullopt);
  ASSERT_TRUE(reader);
  int next = 0;
  for (int i = 1; i <= 200; ++i) {
    sut->rank(0, LogStream::kStdout, fmt::format("line {}", i));
    if (i % 3 != 0) continue;
    const auto lines = reader->read(false);
    ASSERT_TRUE(lines);
    for (const LogLine& line : *lines) EXPECT_EQ(line.text, fmt::format("line {}", next++));
  }
  EXPECT_EQ(next, 199);
}

TEST_F(RunLogTest, LineThatIsNotWholeYetIsReadWhenItIs) {
  fs::create_directories(folder_ + "/logs");
  std::ofstream file(folder_ + "/logs/launch.log");
  file << "2025-12-01T12:00:00.000001Z out half" << std::flush;
  auto reader = LogReader::open(folder_, std::nullopt);
  ASSERT_TRUE(reader);
  EXPECT_THAT(texts(*reader->read(false)), ElementsAre());
  file << " and half\nrest" << std::flush;
  EXPECT_THAT(texts(*reader->read(false)), ElementsAre("half and half"));
  EXPECT_THAT(texts(*reader->read(true)), ElementsAre("rest"));
}

TEST_F(RunLogTest, EndlessLineCostsBoundedMemory) {
  fs::create_directories(folder_ + "/logs");
  std::ofstream(folder_ + "/logs/rank-0.log") << std::string(1 << 20, 'x');
  const auto lines = read_all();
  EXPECT_GT(lines.size(), 1u);
  for (const LogLine& line : lines) EXPECT_LE(line.text.size(), 192u << 10);
}

TEST_F(RunLogTest, SecondLaunchOfARunDoesNotWriteIntoTheFirstOnes) {
  auto first = log();
  first->rank(0, LogStream::kStdout, "first");
  // Another process, as a launch is: a lock is between processes.
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto second = log();
    second->rank(0, LogStream::kStdout, "second");
    second->rank(0, LogStream::kStdout, "third");
    ::_exit(warnings_.size() == 1 && warnings_[0].find("another launch") != std::string::npos ? 0
                                                                                              : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(texts(read_all()), ElementsAre("first"));
  EXPECT_EQ(*launcher_of(folder_), std::nullopt);  // a process does not see its own lock
}

TEST_F(RunLogTest, HolderOfTheLockIsKnownToOthersAsLongAsItLives) {
  fs::create_directories(folder_);
  EXPECT_EQ(*launcher_of(folder_), std::nullopt);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto lock = LauncherLock::take(folder_);
    (void)!::write(ready[1], lock ? "y" : "n", 1);
    ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(*launcher_of(folder_), pid);
  EXPECT_FALSE(LauncherLock::take(folder_));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(*launcher_of(folder_), std::nullopt);
}

TEST_F(RunLogTest, FolderThatCannotBeMadeIsOneWarning) {
  std::ofstream(dir_.path() + "/runs") << "a file";
  auto sut = log();
  for (int i = 0; i < 3; ++i) sut->rank(0, LogStream::kStdout, "x");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("the job goes on"));
}

TEST_F(RunLogTest, RunWithoutAFolderKeepsNothing) {
  RunLog sut(
      {.folder = "", .warn = [this](const std::string& text) { warnings_.push_back(text); }});
  sut.event(StartEvent{.run = "r"});
  sut.rank(0, LogStream::kStdout, "x");
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

}  // namespace
}  // namespace npu::client
