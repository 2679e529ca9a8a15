// F09 to F11: what processes do with their connection: fork, close it, die before it is accepted.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "client/api/admin.hpp"
#include "client/api/connection.hpp"
#include "shm/channel.hpp"
#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

class ProcessTest : public FaultTest {};

/// Sockets that a process has open.
std::vector<int> sockets_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  std::vector<int> found;
  DIR* const dir = ::opendir(folder.c_str());
  if (dir == nullptr) return found;
  while (const dirent* entry = ::readdir(dir)) {
    char target[64] = {};
    const std::string path = folder + "/" + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
        std::string(target).starts_with("socket:")) {
      found.push_back(std::atoi(entry->d_name));
    }
  }
  ::closedir(dir);
  return found;
}

/// This process's connections to the daemon: it has no other sockets of this type.
std::vector<int> connections() {
  std::vector<int> found;
  for (const int fd : sockets_of(::getpid())) {
    int type = 0;
    socklen_t size = sizeof(type);
    const bool known = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    if (known && type == SOCK_SEQPACKET) found.push_back(fd);
  }
  return found;
}

/// Killed and, if it is our child, reaped at the end.
class Owned {
 public:
  explicit Owned(pid_t pid) noexcept : pid_(pid) {}
  ~Owned() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

 private:
  pid_t pid_;
};

// F09: the child has a copy of the socket, so the connection does not close.
TEST_F(ProcessTest, DeathOfARankWhoseChildLivesIsItsDeath) {
  start_daemon();
  start_bystander();
  const auto group = run({.body = [](Rank& rank) {
    if (rank.id() == 2) {
      if (operate_times(rank, Op::kDirect, 5) != 0) return 1;
      const pid_t child = ::_Fork();  // no handler runs: the copies stay open
      if (child == 0) {
        ::alarm(60);  // should the test itself be killed
        for (;;) ::pause();
      }
      rank.report.child.store(child);
      ::raise(SIGKILL);
    }
    return operate_until_failure(rank, Op::kDirect);
  }});
  ASSERT_EQ(group->wait(2), 128 + SIGKILL);
  const uint64_t died = now_ns();
  const Owned child(static_cast<pid_t>(group->report(2).child.load()));
  EXPECT_FALSE(sockets_of(static_cast<pid_t>(group->report(2).child.load())).empty());
  expect_released(*group, 2, Code::kAborted, group->name_of(2) + " died", died);
  expect_recovered(6, group->name_of(2) + " died");
  print_longest("released", "0.5 s");
}

/// In the child of a rank: 42 when every call says whose device it is.
int check_child(Rank& rank, client::Work& outstanding) {
  const auto refused = [](const Error& error) {
    return error.code == Code::kFailedPrecondition &&
           error.message.find("belongs to the process that forked this one") != std::string::npos;
  };
  auto barrier = rank.all().barrier();
  if (barrier || !refused(barrier.error())) return 2;
  auto sent =
      rank.all().send(&rank, 4096, DType::kUint8, 0);  // outside the arena, larger than an entry
  if (sent || !refused(sent.error())) return 3;
  if (!outstanding.ready()) return 4;
  const auto ended = outstanding.wait();
  if (ended || !refused(ended.error())) return 5;
  if (!rank.device.failure() || !refused(*rank.device.failure())) return 6;
  rank.device.set_progress(1);
  const auto committed = rank.device.commit_checkpoint({}).get();
  if (committed || !refused(committed.error())) return 7;
  const auto left = rank.device.detach();
  if (left || !refused(left.error())) return 8;
  return connections().empty() ? 42 : 9;
}

TEST_F(ProcessTest, ForkedChildIsRefusedAndItsParentGoesOn) {
  start_daemon();
  start_bystander();
  const auto group = run({.body = [](Rank& rank) {
    if (operate_times(rank, Op::kDirect, 3) != 0) return 1;
    auto outstanding = rank.all().barrier();
    if (!outstanding) return fail_with(rank, outstanding.error());
    const pid_t child = rank.id() == 2 ? ::fork() : -1;
    // Returned, not exited: the device is destroyed in the child, too.
    if (child == 0) return check_child(rank, *outstanding);
    int status = 0;
    if (child > 0 && ::waitpid(child, &status, 0) != child) return 10;
    if (child > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 42))
      return 100 + WEXITSTATUS(status);
    if (auto ended = outstanding->wait(); !ended) return fail_with(rank, ended.error());
    return operate_times(rank, Op::kRing, 20);
  }});
  for (uint32_t r = 0; r < 6; ++r)
    EXPECT_EQ(group->wait(r), 0) << "rank " << r << ": " << group->report(r).text;
  expect_recovered(6, "");
}

// F10
TEST_F(ProcessTest, RankThatClosesItsConnectionKeepsItsMemoryAndLosesItsDevice) {
  start_daemon();
  start_bystander();
  const auto group = run({.body = [](Rank& rank) {
    if (rank.id() != 2) return operate_until_failure(rank, Op::kDirect);
    if (operate_times(rank, Op::kDirect, 5) != 0) return 1;
    for (const int fd : connections()) ::shutdown(fd, SHUT_RDWR);
    const auto arena = rank.device.arena();
    for (uint8_t round = 0; rank.go.load() == 0; ++round) {  // while others use the device
      std::fill(arena.begin(), arena.end(), std::byte{round});
      if (arena.front() != std::byte{round} || arena.back() != std::byte{round}) return 2;
      short_pause();
    }
    const auto ended = operate(rank, Op::kDirect, 6);
    if (ended) return 3;
    (void)fail_with(rank, ended.error());
    return 0;
  }});
  const std::string reason = group->name_of(2) + " closed its connection";
  for (const uint32_t r : {0u, 1u, 3u, 4u, 5u}) {
    ASSERT_EQ(group->wait(r), 0) << group->report(r).text;
    EXPECT_EQ(std::string(group->report(r).text).find(reason), 0u) << group->report(r).text;
    EXPECT_EQ(group->report(r).code, static_cast<uint8_t>(Code::kAborted));
  }
  expect_recovered(6, reason);
  group->let_go();
  EXPECT_EQ(group->wait(2), 0) << group->report(2).text;
  EXPECT_NE(group->report(2).code, 0);
}

/// Rank 2 does five operations and then hands over a checkpoint, which is where a failpoint meets
/// its connection: hello and attach were the first two messages. It lives on until the test lets it
/// go: its death would be a reason of its own.
int operate_then_commit(Rank& rank) {
  if (rank.id() != 2) return operate_until_failure(rank, Op::kDirect);
  if (operate_times(rank, Op::kDirect, 5) != 0) return 1;
  const auto report = rank.device.commit_checkpoint({}).get();
  if (report) return 2;
  (void)fail_with(rank, report.error());
  while (rank.go.load() == 0) short_pause();
  return 0;
}

// F10: the connection breaks under a message.
TEST_F(ProcessTest, ConnectionThatBreaksUnderAMessageEndsTheRunWithItsRankNamed) {
  start_daemon();
  start_bystander();
  const auto group =
      run({.body = operate_then_commit, .failpoints = {{2, "client.close_connection=close@3"}}});
  const std::string reason = group->name_of(2) + " closed its connection";
  expect_released(*group, 2, Code::kAborted, reason, 0);
  expect_recovered(6, reason);
  group->let_go();
  EXPECT_EQ(group->wait(2), 0) << group->report(2).text;
  EXPECT_EQ(group->report(2).code, static_cast<uint8_t>(Code::kUnavailable))
      << group->report(2).text;
}

// F22: what is no message ends the connection that it came from.
TEST_F(ProcessTest, GarbageBetweenMessagesEndsTheRunWithItsRankNamed) {
  start_daemon();
  start_bystander();
  const auto group =
      run({.body = operate_then_commit, .failpoints = {{2, "client.garbage_message=garbage@3"}}});
  const std::string reason = group->name_of(2) + " sent a malformed message";
  expect_released(*group, 2, Code::kAborted, reason, 0);
  expect_recovered(6, reason);
  group->let_go();
  EXPECT_EQ(group->wait(2), 0) << group->report(2).text;
  EXPECT_NE(group->report(2).code, 0);
}

/// A connection that says hello and asks for device 0, all of it before the daemon takes it.
UniqueFd ask_for_device(const std::string& socket) {
  auto fd = shm::connect_to(socket);
  if (!fd) return {};
  auto hello = shm::make_message<shm::Hello>(1);
  hello.magic = shm::kHelloMagic;
  hello.protocol_major = shm::kProtocolMajor;
  hello.protocol_minor = shm::kProtocolMinor;
  hello.layout_hash = shm::layout_hash();
  auto attach = shm::make_message<shm::Attach>(2);
  attach.arena_bytes = 1 << 20;
  attach.world = 1;
  shm::put_text(attach.run, "ghost");
  if (!shm::send_message(fd->get(), hello) || !shm::send_message(fd->get(), attach)) return {};
  return std::move(*fd);
}

/// Keeps a daemon stopped; it goes on in any case.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { ::kill(pid_, SIGSTOP); }
  ~Stopped() { ::kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  pid_t pid_;
};

// F11
TEST_F(ProcessTest, ClientsThatDieBeforeTheyAreAcceptedLeaveNothing) {
  start_daemon();
  start_bystander();
  {
    const Stopped stopped(daemon().pid());
    std::vector<pid_t> clients;
    for (int i = 0; i < 40; ++i) {
      clients.push_back(::fork());
      if (clients.back() == 0) ::_exit(ask_for_device(daemon().socket()).valid() ? 0 : 1);
    }
    for (const pid_t client : clients) {
      int status = 0;
      ::waitpid(client, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  expect_recovered(6, "");
}

/// Exit code 0 once the daemon has answered.
pid_t asking_client(const std::string& socket) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const UniqueFd connection = ask_for_device(socket);
  ::_exit(connection.valid() && shm::wait_readable(connection.get(), Deadline::after(kHang)) ? 0
                                                                                             : 1);
}

// F11, in between: it is accepted and dies before anybody has looked who it is.
TEST_F(ProcessTest, ClientThatDiesBetweenAcceptAndLookLeavesNothing) {
  start_daemon("ctl.after_accept=stop@60");
  start_bystander();
  const auto stopped = [this] {
    std::ifstream stat("/proc/" + std::to_string(daemon().pid()) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.find(") T ") != std::string::npos;
  };
  pid_t client = -1;
  for (int i = 0; i < 60 && !stopped(); ++i) {
    client = asking_client(daemon().socket());
    ASSERT_TRUE(holds_soon([&] {
      return stopped() || ::waitpid(client, nullptr, WNOHANG) == client;
    })) << "neither an answer nor the failpoint";
  }
  ASSERT_TRUE(stopped()) << "the daemon did not come by the failpoint";
  ::kill(client, SIGKILL);
  (void)::waitpid(client, nullptr, 0);
  ASSERT_EQ(::kill(daemon().pid(), SIGCONT), 0);
  expect_recovered(6, "");
}

/// A process with this number that only waits, or -1 when the number cannot be had.
pid_t take_number(pid_t number) {
  for (int tries = 0; tries < 200; ++tries) {
    std::ofstream last("/proc/sys/kernel/ns_last_pid");
    if (!(last << (number - 1)).flush()) return -1;
    last.close();
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    if (pid == number) return pid;
    const Owned other(pid);
  }
  return -1;
}

/// The client dies, its connection stays open in another process, and a third one gets its number:
/// it must not be taken for the holder of a device.
TEST_F(ProcessTest, NumberOfADeadClientGivesNobodyADevice) {
  start_daemon();
  start_bystander();
  pid_t client = -1, stranger = -1, holder = -1;
  {
    const Stopped stopped(daemon().pid());
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    client = ::fork();
    if (client == 0) {
      const UniqueFd connection = ask_for_device(daemon().socket());
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);
        for (;;) ::pause();
      }
      ::_exit(::write(pipe[1], &child, sizeof(child)) == sizeof(child) && connection.valid() ? 0
                                                                                             : 1);
    }
    int status = 0;
    ::waitpid(client, &status, 0);
    ASSERT_EQ(status, 0);
    ASSERT_EQ(::read(pipe[0], &holder, sizeof(holder)), static_cast<ssize_t>(sizeof(holder)));
    ::close(pipe[0]);
    ::close(pipe[1]);
    stranger = take_number(client);
  }
  const Owned end_holder(holder), end_stranger(stranger);
  if (stranger < 0) GTEST_SKIP() << "process numbers cannot be chosen here (ns_last_pid)";
#ifdef SO_PEERPIDFD
  constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
  constexpr int kPeerPidfd = 77;
#endif
  int pair[2], fd = -1;
  socklen_t size = sizeof(fd);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  const UniqueFd one(pair[0]), other(pair[1]);
  if (::getsockopt(pair[0], SOL_SOCKET, kPeerPidfd, &fd, &size) != 0) {
    GTEST_SKIP() << "this kernel has no SO_PEERPIDFD (Linux 6.5)";
  }
  const UniqueFd pidfd(fd);
  expect_recovered(6, "");
  EXPECT_EQ(::kill(stranger, 0), 0) << "the stranger was killed";
}

}  // namespace
}  // namespace npu::fault
