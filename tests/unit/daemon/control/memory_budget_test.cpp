#include "daemon/control/memory_budget.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace npu::daemon {
namespace {

using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

class MemoryBudgetTest : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  /// 16 GiB, 10 of them available.
  void put_host() {
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   10485760 kB\n");
  }
  test::TempDir dir_;
  MemoryBudget sut_{dir_.path()};
};

using MemoryBudgetHost = MemoryBudgetTest;

TEST_F(MemoryBudgetHost, AvailableMemoryIsTheLimit) {
  put_host();
  EXPECT_EQ(sut_.tightest().left_bytes(), 10 * kGiB);
  EXPECT_TRUE(sut_.check(9 * kGiB, 0));
  const auto refused = sut_.check(10 * kGiB, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("10.0 GiB of memory are wanted"));
  EXPECT_THAT(refused.error().message, HasSubstr("the host has 16.0 GiB, 6.0 GiB of them are used"));
}

TEST_F(MemoryBudgetHost, PromisesCountAsUsed) {
  put_host();
  EXPECT_TRUE(sut_.check(4 * kGiB, 5 * kGiB));
  EXPECT_FALSE(sut_.check(4 * kGiB, 6 * kGiB));
  EXPECT_FALSE(sut_.check(1, 11 * kGiB));
  EXPECT_FALSE(sut_.check(UINT64_MAX, 0)) << "no sum wraps";
}

TEST_F(MemoryBudgetHost, UnknownIsNoLimit) {
  EXPECT_TRUE(sut_.check(uint64_t{1} << 60, 0));
  put("/proc/meminfo", "nonsense\n\nMemTotal:\nMemAvailable: many kB\n");
  put("/proc/self/cgroup", "no colon\n1:\n0::\n0::relative\n");
  EXPECT_TRUE(sut_.check(uint64_t{1} << 60, 0));
}

TEST_F(MemoryBudgetHost, ThisHostHasSomething) {
  const MemoryRoom room = MemoryBudget().tightest();
  EXPECT_GT(room.left_bytes(), 0u);
  EXPECT_LT(room.limit_bytes, uint64_t{1} << 60);
}

using MemoryBudgetGroup = MemoryBudgetTest;

TEST_F(MemoryBudgetGroup, TheTightestOfAllGroupsAboveCounts) {
  put_host();
  put("/proc/self/cgroup", "0::/system.slice/npud.service\n");
  put("/sys/fs/cgroup/system.slice/memory.max", "4294967296\n");
  put("/sys/fs/cgroup/system.slice/memory.current", "3221225472\n");
  put("/sys/fs/cgroup/system.slice/memory.stat",
      "anon 5\nfile 2147483648\ninactive_file 1073741824\nactive_file 536870912\n");
  put("/sys/fs/cgroup/system.slice/npud.service/memory.max", "max\n");
  put("/sys/fs/cgroup/system.slice/npud.service/memory.current", "1\n");
  const MemoryRoom room = sut_.tightest();
  EXPECT_EQ(room.limit_bytes, 4 * kGiB);
  EXPECT_EQ(room.used_bytes, 3 * kGiB / 2) << "pages of files can be given back";
  const auto refused = sut_.check(3 * kGiB, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("control group '/system.slice' has 4.0 GiB"));
}

TEST_F(MemoryBudgetGroup, VersionOneIsRead) {
  put_host();
  put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/job\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "536870912\n");
  put("/sys/fs/cgroup/memory/job/memory.stat",
      "inactive_file 1\ntotal_inactive_file 268435456\ntotal_active_file 0\n");
  EXPECT_EQ(sut_.tightest().left_bytes(), kGiB * 3 / 4);
}

}  // namespace
}  // namespace npu::daemon
