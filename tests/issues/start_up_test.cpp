// Starting where something is already: a socket file, a daemon, a holder of the device.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <filesystem>

#include "client/api/admin.hpp"
#include "client/launch/child.hpp"
#include "shm/segment.hpp"
#include "tests/collectives/rank_body.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using client::Device;
using testing::HasSubstr;

/// True when one rank attaches to a device and does a barrier.
bool serves(const test::DaemonProcess& daemon) {
  return test::run_rank(test::attach_options(daemon.socket(), 1, 0, "serves"),
                        [](Device& d) { return test::done(d.world().barrier()) ? 0 : 1; }) == 0;
}

struct Ended {
  int code = -1;
  std::string err;
};

/// Another npud in the place of `daemon`, to its end.
Ended second_npud(const test::DaemonProcess& daemon) {
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  const std::string run = std::filesystem::path(daemon.socket()).parent_path();
  client::ChildSpec spec{.path = test::program("npud"), .stderr_fd = err.get()};
  spec.argv = {"npud", "--runtime-dir", run, "--state-dir", daemon.state_dir(), "--foreground"};
  auto child = client::Child::start(spec);
  if (!child) return {-1, child.error().message};
  Ended ended{child->wait().code(), {}};
  ended.err.resize(static_cast<size_t>(::lseek(err.get(), 0, SEEK_END)));
  EXPECT_EQ(::pread(err.get(), ended.err.data(), ended.err.size(), 0),
            static_cast<ssize_t>(ended.err.size()));
  return ended;
}

// pytorch/pytorch#17041, pytorch/examples#840: address already in use after a crash.
TEST(B7, SocketOfAKilledDaemonIsReplaced) {
  test::DaemonProcess daemon;
  daemon.stop(SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(daemon.socket())) << "a crash leaves the file";
  daemon.start();
  EXPECT_TRUE(serves(daemon));
}

TEST(B7, SocketOfALiveDaemonIsNot) {
  const test::DaemonProcess daemon;
  const Ended second = second_npud(daemon);
  EXPECT_EQ(second.code, 75);
  EXPECT_THAT(second.err, HasSubstr("another one runs in"));
  EXPECT_TRUE(serves(daemon));
}

/// A process that holds device 0 until it is killed; returned once it has it.
pid_t hold_device(const std::string& socket) {
  int ready[2];
  EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const auto pids = test::fork_ranks(
      socket, 1,
      [&](Device&) {
        (void)!::write(ready[1], "x", 1);
        for (;;) ::pause();
        return 0;
      },
      "holder");
  char byte = 0;
  ::close(ready[1]);
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the holder did not come to hold it";
  ::close(ready[0]);
  return pids[0];
}

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  (void)test::wait_ranks({pid});
}

// hiyouga/LlamaFactory#3839 (EJ0001): the restart fails because the earlier process still has the
// device.
TEST(B27, DeviceOfADeadProcessIsFreeAtOnce) {
  const test::DaemonProcess daemon;
  for (int i = 0; i < 10; ++i) {
    end(hold_device(daemon.socket()));
    const auto sut = Device::attach(test::attach_options(daemon.socket(), 1, 0, "next"));
    ASSERT_TRUE(sut) << sut.error().message;
    ASSERT_TRUE((*sut)->detach());
  }
}

TEST(B27, HolderThatIsAliveIsNamed) {
  const test::DaemonProcess daemon;
  const pid_t holder = hold_device(daemon.socket());
  const auto sut = Device::attach(test::attach_options(daemon.socket(), 1, 0, "next"));
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBusy);
  EXPECT_THAT(sut.error().message, HasSubstr("(pid " + std::to_string(holder) + ") of run "));
  end(holder);
}

// InternLM/lmdeploy#4722, #3354: the rank's offset is ignored and two ranks take one device.
TEST(B40, TwoProcessesOnOneDeviceAreBothNamed) {
  const test::DaemonProcess daemon;
  const pid_t first = hold_device(daemon.socket());
  const auto sut = Device::attach(test::attach_options(daemon.socket(), 1, 0, "second"));
  ASSERT_FALSE(sut);
  EXPECT_THAT(sut.error().message, HasSubstr("pid " + std::to_string(first)));
  EXPECT_THAT(sut.error().message, HasSubstr("pid " + std::to_string(::getpid())));
  end(first);
}

/// No file, and no shared memory, grows beyond this while it exists.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_{};
};

// pytorch/pytorch#5040, #16979: bus error in a worker because shared memory is too small.
TEST(B9, ShortageIsAnErrorWithTheSizeBeforeAnythingIsMapped) {
  const FileSizeLimit limit(1 << 20);
  const auto sut = shm::create_segment({.size_bytes = 64 << 20, .device = 3});
  ASSERT_FALSE(sut);
  EXPECT_THAT(sut.error().message, HasSubstr("allocate 64.0 MiB for the arena of device 3"));
  EXPECT_TRUE(shm::create_segment({.size_bytes = 1 << 20, .device = 3}));
}

}  // namespace
}  // namespace npu
