#include "daemon/service/status.hpp"

#include <gtest/gtest.h>

#include "daemon/service/notify.hpp"

namespace npu::daemon {
namespace {

TEST(StatusText, NamesThePhase) {
  EXPECT_EQ(status_text({.devices = 8}, ""), "idle, 8 devices");
  EXPECT_EQ(status_text({.devices = 1}, ""), "idle, 1 device");
  EXPECT_EQ(status_text({.runs = 1, .devices_busy = 8, .devices = 8}, ""),
            "serving 1 run on 8 of 8 devices");
  EXPECT_EQ(status_text({.runs = 2, .devices_busy = 5, .devices = 8}, "stuck: npud-coord"),
            "serving 2 runs on 5 of 8 devices; stuck: npud-coord");
  EXPECT_EQ(status_text({.runs = 2, .devices = 8, .disk_tasks = 1, .draining = true}, ""),
            "draining: 2 runs to end, 1 disk task to finish");
}

TEST(StatusLine, IsSentAtAChangeAndNotTwiceInASecond) {
  StatusLine sut;
  const auto begin = Clock::now();
  EXPECT_EQ(sut.due("a", begin), "a");
  EXPECT_FALSE(sut.due("a", begin + milliseconds(5000)));
  EXPECT_EQ(sut.due("b", begin + milliseconds(5000)), "b");
  EXPECT_FALSE(sut.due("c", begin + milliseconds(5999)));
  EXPECT_EQ(sut.due("d", begin + milliseconds(6000)), "d");
}

TEST(StatusLine, OfAnyTextIsOneVariable) {
  EXPECT_EQ(Notifier::status_line("a\nWATCHDOG=1\n"), "STATUS=a\\x0aWATCHDOG=1\\x0a\n");
  EXPECT_LT(Notifier::status_line(std::string(9000, 'a')).size(), 600u);
}

TEST(MoreTime, IsInMicroseconds) {
  EXPECT_EQ(Notifier::more_time(milliseconds(1500)), "EXTEND_TIMEOUT_USEC=1500000\n");
}

}  // namespace
}  // namespace npu::daemon
