#include "client/cli/copy_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "shm/base/fd.hpp"

namespace npu::cli {
namespace {

namespace fs = std::filesystem;

class CopyFileTest : public testing::Test {
 protected:
  CopyFileTest() {
    std::string name = "/tmp/npu-copy-XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~CopyFileTest() override { fs::remove_all(root_); }

  [[nodiscard]] UniqueFd source(const std::string& text) const {
    std::ofstream(root_ + "/source") << text;
    return UniqueFd(::open((root_ + "/source").c_str(), O_RDONLY | O_CLOEXEC));
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    return read_file(root_ + "/" + name, 1u << 24).value_or("");
  }
  [[nodiscard]] size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), {}));
  }

  std::string root_;
};

TEST_F(CopyFileTest, WholeFileArrivesWithTheUsersMode) {
  const std::string text(3'000'001, 'x');
  const mode_t before = ::umask(022);
  const auto bytes = copy_to_file(source(text).get(), root_ + "/to");
  ::umask(before);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, text.size());
  EXPECT_EQ(text_of("to"), text);
  struct stat st {};
  ASSERT_EQ(::stat((root_ + "/to").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0644u);
  EXPECT_EQ(files(), 2u);
}

TEST_F(CopyFileTest, SourceOnAnotherKindOfFileSystemIsCopiedToo) {
  const UniqueFd memory(::memfd_create("source", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "hello", 5), 5);
  ASSERT_TRUE(copy_to_file(memory.get(), root_ + "/to"));
  EXPECT_EQ(text_of("to"), "hello");
}

TEST_F(CopyFileTest, EmptyFileIsCopied) {
  ASSERT_TRUE(copy_to_file(source("").get(), root_ + "/to"));
  EXPECT_TRUE(fs::exists(root_ + "/to"));
}

TEST_F(CopyFileTest, SpaceThatRunsOutLeavesTheOldFileAndNoTemporaryOne) {
  std::ofstream(root_ + "/to") << "old";
  const UniqueFd from = source(std::string(1 << 20, 'x'));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit tight = before;
  tight.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const auto bytes = copy_to_file(from.get(), root_ + "/to");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(bytes);
  EXPECT_EQ(text_of("to"), "old");
  EXPECT_EQ(files(), 2u);
}

TEST_F(CopyFileTest, MissingDirectoryCannotBeWritten) {
  const auto bytes = copy_to_file(source("x").get(), root_ + "/none/to");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().exit, Exit::kCannotWrite);
}

TEST_F(CopyFileTest, DirectoryIsNotReplaced) {
  const auto bytes = copy_to_file(source("x").get(), root_);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().exit, Exit::kCannotWrite);
}

}  // namespace
}  // namespace npu::cli
