#include "shm/base/failpoint.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "shm/base/clock.hpp"

namespace npu::failpoint {
namespace {

#ifndef NPU_NO_FAILPOINTS

class FailpointTest : public testing::Test {
 protected:
  ~FailpointTest() override { EXPECT_TRUE(arm("", -1)); }
};

int write_error() { return NPU_FAILPOINT_ERRNO("test.write"); }

/// The wait status of a process that passes "test.place".
int status_of_passing(const char* text) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    (void)::setrlimit(RLIMIT_CORE, &no_core);
    if (!arm(text, -1)) ::_exit(2);
    NPU_FAILPOINT("test.place");
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  if (WIFSTOPPED(status)) {
    ::kill(pid, SIGCONT);
    int end = 0;
    EXPECT_EQ(::waitpid(pid, &end, 0), pid);
    EXPECT_TRUE(WIFEXITED(end) && WEXITSTATUS(end) == 0) << "it goes on after SIGCONT";
  }
  return status;
}

TEST_F(FailpointTest, NothingIsArmedAtFirst) {
  EXPECT_FALSE(armed.load());
  EXPECT_EQ(write_error(), 0);
}

TEST_F(FailpointTest, ErrnoActsAtItsPassageOnly) {
  ASSERT_TRUE(arm("test.write=errno:ENOSPC@3", -1));
  EXPECT_EQ(write_error(), 0);
  EXPECT_EQ(write_error(), 0);
  EXPECT_EQ(write_error(), ENOSPC);
  EXPECT_EQ(write_error(), 0);
}

TEST_F(FailpointTest, EveryPassageAndNumbersAreUnderstood) {
  ASSERT_TRUE(arm("other.place=kill,test.write=errno:5@every", -1));
  EXPECT_EQ(write_error(), EIO);
  EXPECT_EQ(write_error(), EIO);
}

TEST_F(FailpointTest, PlacesDoWhatIsLeftToThem) {
  ASSERT_TRUE(arm("test.send=garbage@2", -1));
  EXPECT_FALSE(NPU_FAILPOINT_ASKED("test.send", Action::kGarbage));
  EXPECT_TRUE(NPU_FAILPOINT_ASKED("test.send", Action::kGarbage));
  ASSERT_TRUE(arm("test.send=close", -1));
  EXPECT_FALSE(NPU_FAILPOINT_ASKED("test.send", Action::kGarbage));
}

TEST_F(FailpointTest, EntryOfAnotherRankIsNotForUs) {
  ASSERT_TRUE(arm("rank3/test.write=errno:EIO", 2));
  EXPECT_FALSE(armed.load());
  ASSERT_TRUE(arm("rank2/test.write=errno:EIO", 2));
  EXPECT_EQ(write_error(), EIO);
}

TEST_F(FailpointTest, SleepTakesItsTime) {
  ASSERT_TRUE(arm("test.place=sleep:30ms", -1));
  const auto begin = Clock::now();
  NPU_FAILPOINT("test.place");
  EXPECT_GE(Clock::now() - begin, milliseconds(30));
}

TEST_F(FailpointTest, ErrnoOfTheCallerIsKept) {
  ASSERT_TRUE(arm("test.place=sleep:1ms", -1));
  errno = E2BIG;
  NPU_FAILPOINT("test.place");
  EXPECT_EQ(errno, E2BIG);
}

TEST_F(FailpointTest, SignalsEndOrStopTheProcess) {
  const int killed = status_of_passing("test.place=kill");
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  const int crashed = status_of_passing("test.place=segv");
  EXPECT_TRUE(WIFSIGNALED(crashed) && WTERMSIG(crashed) == SIGSEGV);
  EXPECT_TRUE(WIFSTOPPED(status_of_passing("test.place=stop")));
  EXPECT_TRUE(WIFEXITED(status_of_passing("test.place=kill@2")));
}

TEST_F(FailpointTest, BadEntriesAreNamed) {
  for (const char* text : {"nothing", "=kill", "Bad=kill", "a=explode", "a=kill:now",
                           "a=sleep:long", "a=errno:EWHAT", "a=errno:0", "a=kill@0", "a=kill@x",
                           "a=kill@", "rank/a=kill", "rankx/a=kill", "r3/a=kill", ","}) {
    const auto sut = arm(std::string("good.one=stop,") + text, 0);
    ASSERT_FALSE(sut) << text;
    EXPECT_EQ(sut.error().exit, Exit::kUsage);
    const std::string entry = std::string("'") + (text[0] == ',' ? "" : text) + "'";
    EXPECT_NE(sut.error().message.find(entry), std::string::npos) << sut.error().message;
    EXPECT_FALSE(armed.load()) << "a wrong text must not be half armed";
  }
}

TEST_F(FailpointTest, TooManyEntriesAreRefused) {
  std::string text = "a=stop";
  for (int i = 0; i < 16; ++i) text += ",a=stop";
  EXPECT_FALSE(arm(text, -1));
}

#else

TEST(Failpoint, IsNothingInThisBuild) {
  EXPECT_TRUE(arm("test.write=errno:EIO", -1));
  EXPECT_EQ(NPU_FAILPOINT_ERRNO("test.write"), 0);
}

#endif

}  // namespace
}  // namespace npu::failpoint
