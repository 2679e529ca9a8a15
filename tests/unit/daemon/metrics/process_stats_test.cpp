#include "daemon/metrics/process_stats.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace npu::daemon {
namespace {

TEST(ProcessStats, AreThoseOfThisProcess) {
  const ProcessStats before = read_process_stats();
  EXPECT_GT(before.cpu_seconds, 0);
  EXPECT_GT(before.resident_bytes, 100'000u);
  EXPECT_GT(before.virtual_bytes, before.resident_bytes);
  EXPECT_GE(before.open_fds, 3u);
  EXPECT_GT(before.max_fds, before.open_fds);
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(read_process_stats().open_fds, before.open_fds + 1);
  ::close(fd);
  std::thread([&] { EXPECT_EQ(read_process_stats().threads, before.threads + 1); }).join();
}

}  // namespace
}  // namespace npu::daemon
