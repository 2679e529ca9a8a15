// Socket activation with real inherited descriptors: as npud.socket passes them, and what must be refused.
#include <thread>

#include "client/api/device.hpp"
#include "shm/channel.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/service/service_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;

/// A socket that listens for somebody else, as systemd holds it.
UniqueFd listener_at(const std::string& path, int type = SOCK_SEQPACKET) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  if (type != SOCK_DGRAM) {
    EXPECT_EQ(::listen(fd.get(), 16), 0);
  }
  return fd;
}

class ActivationTest : public ServiceTest {
 protected:
  /// As systemd passes descriptors: from 3 on, with count, names and the receiver's pid in the environment.
  NpudSpec passing(std::vector<int> fds, const std::string& names) {
    NpudSpec spec;
    spec.in_child = [fds, names] {
      // Out of the way first: one of them may be 3.
      std::vector<int> high;
      for (const int fd : fds) high.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, 100));
      for (size_t i = 0; i < high.size(); ++i) ::dup2(high[i], 3 + static_cast<int>(i));
      ::setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
      ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
      ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    };
    return spec;
  }
  /// Refused with exit 78 and this sentence, before anything was started.
  void expect_refused(const NpudSpec& spec, const std::string& why) {
    Npud sut(root(), spec);
    EXPECT_EQ(sut.wait(), static_cast<int>(Exit::kBadConfig));
    EXPECT_THAT(sut.err(), HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(sut.socket()));
  }
  std::string path() const { return root() + "/passed.sock"; }
};

TEST_F(ActivationTest, ServesThePassedSocketAndLeavesItToItsOwner) {
  const UniqueFd held = listener_at(path());
  // Somebody waits before there is a daemon.
  auto early = shm::connect_to(path());
  ASSERT_TRUE(early);
  start(passing({held.get()}, "npud.socket"));
  EXPECT_FALSE(std::filesystem::exists(socket())) << "a second socket";
  EXPECT_TRUE(client::query_info(path()));
  const auto codes = run_threads(path(), 2, [](client::Device& device) {
    return device.world().barrier()->wait() ? 0 : 1;
  });
  EXPECT_THAT(codes, testing::Each(0));
  npud_->signal(SIGTERM);
  EXPECT_EQ(npud_->wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(path())) << "the socket is not the daemon's to remove";

  // Whoever comes now waits for the next daemon.
  Result<client::DaemonInfo> answer = fail(Code::kUnavailable, "not yet");
  std::thread waits([&] { answer = client::query_info(path()); });
  start(passing({held.get()}, "npud.socket"));
  waits.join();
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST_F(ActivationTest, OtherDescriptorsAreClosedAndNamed) {
  const UniqueFd held = listener_at(path());
  const UniqueFd memory(::memfd_create("stored", MFD_CLOEXEC));
  start(passing({memory.get(), held.get()}, "seg-7-arena:npud.socket"));
  EXPECT_TRUE(client::query_info(path()));
  EXPECT_TRUE(eventually([&] {
    return npud_->err().find("closing a descriptor that was passed at the start name='seg-7-arena'") !=
           std::string::npos;
  })) << npud_->err();
}

TEST_F(ActivationTest, WithoutTheNamedSocketItMakesItsOwn) {
  const UniqueFd held = listener_at(path());
  start(passing({held.get()}, "another.socket"));
  EXPECT_TRUE(client::query_info(socket()));
}

TEST_F(ActivationTest, DescriptorsOfAnotherProcessAreNotOurs) {
  const UniqueFd held = listener_at(path());
  NpudSpec spec;
  spec.environment = {"LISTEN_FDS=1", "LISTEN_FDNAMES=npud.socket", "LISTEN_PID=1"};
  start(spec);
  EXPECT_TRUE(client::query_info(socket()));
}

TEST_F(ActivationTest, ASocketOfAnotherKindIsRefused) {
  const std::string why =
      "what systemd passed as 'npud.socket' is no listening SOCK_SEQPACKET socket with a path; use "
      "ListenSequentialPacket=/run/npud/npud.sock in it";
  const UniqueFd stream = listener_at(path(), SOCK_STREAM);
  expect_refused(passing({stream.get()}, "npud.socket"), why);
  const UniqueFd datagram = listener_at(root() + "/d.sock", SOCK_DGRAM);
  expect_refused(passing({datagram.get()}, "npud.socket"), why);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  expect_refused(passing({null.get()}, "npud.socket"), why);
}

TEST_F(ActivationTest, TwoSocketsAreOneTooMany) {
  const UniqueFd one = listener_at(path());
  const UniqueFd two = listener_at(root() + "/two.sock");
  expect_refused(passing({one.get(), two.get()}, "npud.socket:npud.socket"),
                 "systemd passed two sockets named 'npud.socket', one is expected");
}

// systemd's own program: it listens, waits for the first client, and becomes npud.
TEST_F(ActivationTest, StartsWithTheFirstClientUnderSystemdSocketActivate) {
  const char* activate = "/usr/bin/systemd-socket-activate";
  if (::access(activate, X_OK) != 0) GTEST_SKIP() << activate << " is not there (package systemd)";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string npud = program("npud"), run = root() + "/run", state = root() + "/state";
    const std::string listen = "--listen=" + path();
    ::execl(activate, activate, "--seqpacket", "--fdname=npud.socket", listen.c_str(), npud.c_str(),
            "--runtime-dir", run.c_str(), "--state-dir", state.c_str(), nullptr);
    ::_exit(127);
  }
  ASSERT_TRUE(eventually([this] { return std::filesystem::exists(path()); }));
  EXPECT_FALSE(std::filesystem::exists(root() + "/run/npud.lock")) << "started before a client came";
  Result<client::DaemonInfo> info = fail(Code::kUnavailable, "nobody asked");
  EXPECT_TRUE(eventually([&] { return (info = client::query_info(path())).has_value(); }))
      << info.error().message;
  if (info) {
    EXPECT_EQ(info->pid, pid);
  }
  ::kill(pid, SIGTERM);
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace npu::test
