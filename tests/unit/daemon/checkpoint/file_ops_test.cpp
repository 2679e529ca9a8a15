// The guarantees of the real system calls that the store leans on.
#include "daemon/checkpoint/file_ops.hpp"

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

class FileOpsTest : public StoreFixture {
 protected:
  FileOpsTest() : dir_(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  UniqueFd dir_;
};

TEST_F(FileOpsTest, OpenStaysBeneathAndFollowsNoLink) {
  FileOps& sut = FileOps::system();
  std::filesystem::create_symlink("/etc", root_ + "/link");
  EXPECT_EQ(sut.open(dir_.get(), "link", O_RDONLY | O_DIRECTORY, 0), -1);
  EXPECT_EQ(sut.open(dir_.get(), "..", O_RDONLY | O_DIRECTORY, 0), -1);
  EXPECT_EQ(sut.open(dir_.get(), "/etc/passwd", O_RDONLY, 0), -1);
}

TEST_F(FileOpsTest, ReadDirIsSortedAndRepeatable) {
  FileOps& sut = FileOps::system();
  for (const char* name : {"b", "a", ".c"}) std::ofstream(root_ + "/" + name) << "x";
  std::vector<std::string> names;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(sut.read_dir(dir_.get(), &names), 0);
    EXPECT_EQ(names, (std::vector<std::string>{".c", "a", "b"}));
  }
}

TEST_F(FileOpsTest, LockIsExclusiveUntilItsDescriptorCloses) {
  FileOps& sut = FileOps::system();
  ASSERT_EQ(sut.try_lock(dir_.get()), 0);
  const UniqueFd other(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(sut.try_lock(other.get()), -1);
  dir_.reset();
  EXPECT_EQ(sut.try_lock(other.get()), 0);
}

}  // namespace
}  // namespace npu::daemon
