#include "client/record/append_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "client/record/replace_file.hpp"
#include "client/record/run_folder.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::client {
namespace {

class AppendFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string text() const { return *read_file(path_, 1 << 20); }

  test::TempDir dir_;
  std::string path_ = dir_.path() + "/file";
};

TEST_F(AppendFileTest, TextIsThereAfterAFlush) {
  auto sut = AppendFile::open(path_);
  ASSERT_TRUE(sut);
  EXPECT_FALSE(sut->had_content());
  ASSERT_TRUE(sut->append("one\n"));
  EXPECT_EQ(text(), "");
  ASSERT_TRUE(sut->flush());
  EXPECT_EQ(text(), "one\n");
}

TEST_F(AppendFileTest, LineThatWasCutIsEndedFirst) {
  std::ofstream(path_) << "one\ntw";
  auto sut = AppendFile::open(path_);
  ASSERT_TRUE(sut);
  EXPECT_TRUE(sut->had_content());
  ASSERT_TRUE(sut->append("three\n"));
  ASSERT_TRUE(sut->flush());
  EXPECT_EQ(text(), "one\ntw\nthree\n");
}

TEST_F(AppendFileTest, FullDiskIsAnErrorOfTheFlush) {
  auto sut = AppendFile::create("/dev/full");
  EXPECT_FALSE(sut) << "it was there";
  sut = AppendFile::open("/dev/full");
  ASSERT_TRUE(sut);
  ASSERT_TRUE(sut->append("x"));
  const auto flushed = sut->flush();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, Code::kResourceExhausted);
}

TEST_F(AppendFileTest, ReplacedFileIsOldOrNew) {
  ASSERT_TRUE(replace_file(path_, "old"));
  ASSERT_TRUE(replace_file(path_, "new"));
  EXPECT_EQ(text(), "new");
  EXPECT_FALSE(replace_file(dir_.path() + "/nowhere/file", "x"));
}

TEST(RunFolder, JobsFolderThenStateThenHome) {
  const auto env = [](const char* state, const char* home) {
    return [=](const char* name) { return std::string(name) == "HOME" ? home : state; };
  };
  EXPECT_EQ(runs_folder("/out", env("/state", "/home")), "/out");
  EXPECT_EQ(runs_folder(std::nullopt, env("/state", "/home")), "/state/npu/runs");
  EXPECT_EQ(runs_folder(std::nullopt, env(nullptr, "/home")), "/home/.local/state/npu/runs");
  EXPECT_EQ(runs_folder(std::nullopt, env("", "")), "");
}

}  // namespace
}  // namespace npu::client
