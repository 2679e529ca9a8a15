// Traces of aborted runs as files: whole, private, and few.
#include "daemon/control/trace_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "shm/base/fd.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::daemon {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

TEST(TraceFile, IsWrittenWholeAndPrivate) {
  const test::TempDir state;
  const auto path = write_trace_file(state.path(), "0-test-1.json", "{}\n");
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, state.path() + "/traces/0-test-1.json");
  EXPECT_EQ(read_file(*path, 100).value_or("?"), "{}\n");
  struct stat st {};
  ASSERT_EQ(::stat(path->c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((state.path() + "/traces").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  EXPECT_EQ(names_in(state.path() + "/traces"), std::set<std::string>{"0-test-1.json"});
}

TEST(TraceFile, ReplacesOneOfTheSameNameAndWhatAKilledWriterLeft) {
  const test::TempDir state;
  ASSERT_TRUE(write_trace_file(state.path(), "0-test-1.json", "a much longer text than the next"));
  ASSERT_TRUE(
      fs::copy_file(state.path() + "/traces/0-test-1.json", state.path() + "/traces/.writing"));
  const auto path = write_trace_file(state.path(), "0-test-1.json", "new");
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(read_file(*path, 100).value_or("?"), "new");
  EXPECT_EQ(names_in(state.path() + "/traces").size(), 1u);
}

TEST(TraceFile, OnlyTheNewestStayAndForeignFilesAreLeftAlone) {
  const test::TempDir state;
  const std::string dir = state.path() + "/traces/";
  const auto then = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (int i = 0; i < 12; ++i) {
    // By time, not by name: generations start again with each daemon.
    const auto path = write_trace_file(state.path(), std::to_string(90 - i) + ".json", "x");
    ASSERT_TRUE(path) << path.error().message;
    fs::last_write_time(*path, then + std::chrono::seconds(i));
    if (i == 0) fs::copy_file(*path, dir + "notes.txt");
  }
  EXPECT_EQ(names_in(dir),
            (std::set<std::string>{"79.json", "80.json", "81.json", "82.json", "83.json", "84.json",
                                   "85.json", "86.json", "notes.txt"}));
}

TEST(TraceFile, MissingStateDirectoryIsNamed) {
  const test::TempDir state;
  const auto path = write_trace_file(state.path() + "/none", "0-test-1.json", "x");
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("/none'"), std::string::npos) << path.error().message;
}

}  // namespace
}  // namespace npu::daemon
