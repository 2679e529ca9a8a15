#include "daemon/adopt/crash_guard.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace npu::daemon {
namespace {

class CrashGuardTest : public testing::Test {
 protected:
  /// A daemon's life that ends while it takes a run over.
  void die() {
    CrashGuard guard(dir_.path());
    ASSERT_TRUE(guard.allowed());
    guard.begin();
    guard.begin();  // of the second rank
  }
  test::TempDir dir_;
};

TEST_F(CrashGuardTest, ThirdDaemonDoesNotTry) {
  die();
  die();
  EXPECT_FALSE(CrashGuard(dir_.path()).allowed());
  EXPECT_TRUE(CrashGuard(dir_.path()).allowed()) << "the count begins anew";
}

TEST_F(CrashGuardTest, AttemptThatWorkedIsForgotten) {
  die();
  CrashGuard second(dir_.path());
  second.begin();
  second.end();
  EXPECT_EQ(CrashGuard(dir_.path()).deaths(), 0);
}

// A client that is refused would else make the daemon forget what another one does to it.
TEST_F(CrashGuardTest, AttemptThatWasRefusedForgetsNothing) {
  die();
  CrashGuard second(dir_.path());
  second.begin();
  second.withdraw();
  EXPECT_EQ(CrashGuard(dir_.path()).deaths(), 1);
  CrashGuard third(dir_.path());
  third.begin();
  EXPECT_EQ(CrashGuard(dir_.path()).deaths(), 2);
}

TEST_F(CrashGuardTest, NonsenseInTheFileIsNoDeath) {
  std::ofstream(dir_.path() + "/adopting") << "x7";
  EXPECT_EQ(CrashGuard(dir_.path()).deaths(), 0);
}

}  // namespace
}  // namespace npu::daemon
