// Pages that are not a client's to change, and memory that is not there (F18, F24, F25, F26).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "tests/fault/hostile_fixture.hpp"

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif

namespace npu::test {
namespace {

using testing::HasSubstr;

using HostileMemory = HostileTest;

/// What must fail does so with this errno.
#define EXPECT_ERRNO(call, expected)      \
  do {                                    \
    const auto result = (call);           \
    const int error = errno;              \
    EXPECT_EQ(result, -1) << #call;       \
    EXPECT_EQ(error, expected) << #call;  \
  } while (false)

int map_writable(int fd, size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return -1;
  ::munmap(at, bytes);
  return 0;
}

int punch(int fd) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
}

void expect_read_only(int fd, const char* what) {
  SCOPED_TRACE(what);
  struct stat st {};
  ASSERT_EQ(::fstat(fd, &st), 0);
  const auto bytes = static_cast<size_t>(st.st_size);
  EXPECT_ERRNO(map_writable(fd, bytes), EPERM);
  const RawMap map(fd, PROT_READ);
  ASSERT_NE(map.data(), nullptr);
  EXPECT_ERRNO(::mprotect(map.data(), map.size(), PROT_READ | PROT_WRITE), EACCES);
  EXPECT_ERRNO(punch(fd), EPERM);
  EXPECT_ERRNO(::ftruncate(fd, 0), EPERM);
  EXPECT_ERRNO(::ftruncate(fd, st.st_size * 2), EPERM);
  EXPECT_ERRNO(::pwrite(fd, "x", 1, 0), EPERM);
  EXPECT_ERRNO(::fcntl(fd, F_ADD_SEALS, 1), EPERM);
  const UniqueFd again(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) EXPECT_ERRNO(map_writable(again.get(), bytes), EPERM);
}

// F18
TEST_F(HostileMemory, WhatTheDaemonWritesCannotBeWrittenResizedOrPunched) {
  const auto rank = RawRank::attach(socket(), "pages", 0);
  ASSERT_NE(rank, nullptr);
  expect_read_only(rank->fds[RawRank::kStatus].get(), "status page");
  expect_read_only(rank->fds[RawRank::kBoard].get(), "board");
  RawClient reader(socket());
  ASSERT_TRUE(reader.hello());
  auto open = shm::make_message<shm::TraceOpen>(4);
  shm::put_text(open.run, "pages");
  ASSERT_TRUE(reader.send(open));
  const auto opened = reader.receive();
  ASSERT_TRUE(opened && opened->fds.size() == 1);
  expect_read_only(opened->fds[0].get(), "flight recorder");
  EXPECT_TRUE(rank->barrier(0));
}

// F18: a hole in pages that are its own reads as zeros; the size stays.
TEST_F(HostileMemory, HolesInItsOwnPagesAreZerosAndNobodyElsesBusiness) {
  const auto rank = RawRank::attach(socket(), "holes", 0);
  ASSERT_NE(rank, nullptr);
  for (const auto which : {RawRank::kArena, RawRank::kSubmit, RawRank::kHints}) {
    const int fd = rank->fds[which].get();
    EXPECT_ERRNO(::ftruncate(fd, 0), EPERM);
    EXPECT_ERRNO(::ftruncate(fd, 1 << 30), EPERM);
    EXPECT_ERRNO(::fcntl(fd, F_ADD_SEALS, 8), EPERM);  // F_SEAL_WRITE
  }
  auto* data = static_cast<float*>(rank->maps[RawRank::kArena].data());
  for (int i = 0; i < 2048; ++i) data[i] = 7.0F;
  ASSERT_EQ(punch(rank->fds[RawRank::kArena].get()), 0);
  auto& entry = rank->submit().entries[0];
  entry.generation = rank->generation;
  entry.op = static_cast<uint8_t>(shm::Op::kAllReduce);
  entry.dtype = static_cast<uint8_t>(DType::kFloat32);
  entry.count = 2048;
  entry.recv_offset = 65536;
  rank->publish(0);
  ASSERT_EQ(rank->answer(0), 0);
  const float* result = data + 65536 / sizeof(float);
  EXPECT_EQ(result[0], 0.0F);
  EXPECT_EQ(result[1023], 0.0F);
  EXPECT_EQ(result[1024], 7.0F);
  ASSERT_EQ(punch(rank->fds[RawRank::kSubmit].get()), 0);
  ASSERT_EQ(punch(rank->fds[RawRank::kHints].get()), 0);
  EXPECT_TRUE(rank->barrier(1));
}

uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}

std::string large_devices() {
  static const TempDir dir;
  const std::string path = dir.path() + "/npud.yaml";
  std::ofstream(path) << "device_memory: 1TiB\n";
  return path;
}

class HostileAppetite : public HostileTest {
 protected:
  HostileAppetite() : HostileTest({"--config", large_devices()}) {}
};

// F24 F26: the device would have room, the host does not.
TEST_F(HostileAppetite, MoreThanTheHostHasIsRefusedBeforeAnythingIsAllocated) {
  constexpr uint64_t kWanted = uint64_t{900} << 30;
  if (available_bytes() > kWanted) GTEST_SKIP() << "this host has too much memory";
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  const uint64_t before = available_bytes();
  ASSERT_TRUE(client.send(RawRank::attach_message("glutton", 0, kWanted)));
  std::string text;
  while (text.find("wanted") == std::string::npos) {
    const auto answer = client.receive();
    ASSERT_TRUE(answer) << "no refusal";
    if (answer->type() != shm::MessageType::kError) continue;  // and the run's own end
    text = shm::get_text(answer->as<shm::ErrorReply>().text);
    EXPECT_EQ(answer->as<shm::ErrorReply>().code, static_cast<uint8_t>(Code::kResourceExhausted));
  }
  EXPECT_THAT(text, HasSubstr("900.0 GiB of memory are wanted"));
  EXPECT_THAT(text, HasSubstr("of them are used"));
  EXPECT_LT(before - std::min(before, available_bytes()), uint64_t{8} << 30);
  const auto info = client::query_info(socket());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->devices[0].state, "idle") << "nothing is left of it";
}

/// A memory control group below this process's own, of whichever version there is. Removed at the
/// end; whoever is in it must have ended by then.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t limit_bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; !ready_ && std::getline(groups, line);) {
      const size_t first = line.find(':'), second = line.find(':', first + 1);
      const std::string kind = line.substr(first + 1, second - first - 1);
      const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
      if (kind.empty()) {
        make("/sys/fs/cgroup" + path, "memory.max", limit_bytes);
      } else if (kind == "memory") {
        make("/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes", limit_bytes);
      }
    }
  }
  ~MemoryGroup() {
    if (!folder_.empty()) (void)eventually([this] { return ::rmdir(folder_.c_str()) == 0; });
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  /// True if the process is in it now.
  [[nodiscard]] bool take(pid_t pid) const {
    return ready_ && write("cgroup.procs", std::to_string(pid));
  }
  /// What is charged to it.
  [[nodiscard]] uint64_t used_bytes() const {
    return std::max(number("memory.current"), number("memory.usage_in_bytes"));
  }
  /// Processes that the kernel ended for want of memory.
  [[nodiscard]] uint64_t killed() const {
    return std::max(number("memory.events", "oom_kill"), number("memory.oom_control", "oom_kill"));
  }

 private:
  void make(const std::string& parent, const std::string& limit, uint64_t bytes) {
    folder_ = parent + "/npud-test-" + std::to_string(::getpid());
    if (::mkdir(folder_.c_str(), 0755) != 0) return folder_.clear();
    // Version 2 hands controllers down only where it was told to.
    std::ofstream(parent + "/cgroup.subtree_control") << "+memory";
    ready_ = write(limit, std::to_string(bytes));
    if (!ready_ && ::rmdir(folder_.c_str()) == 0) folder_.clear();
  }
  [[nodiscard]] bool write(const std::string& name, const std::string& text) const {
    std::ofstream file(folder_ + "/" + name);
    return file.is_open() && (file << text).flush().good();
  }
  /// The first number of a file, or the one after `key`; 0 if there is none.
  [[nodiscard]] uint64_t number(const std::string& name, const std::string& key = "") const {
    std::ifstream file(folder_ + "/" + name);
    std::string word = key;
    while (!key.empty() && file >> word && word != key) {
    }
    uint64_t value = 0;
    return file >> value ? value : 0;
  }

  std::string folder_;
  bool ready_ = false;
};

class HostileGroup : public HostileTest {
 protected:
  static constexpr uint64_t kLimit = uint64_t{256} << 20;
  MemoryGroup group_{kLimit};
};

// F26: the device and the host would have room, the daemon's control group has not.
TEST_F(HostileGroup, MoreThanTheControlGroupHasIsRefusedAndTheDaemonLives) {
  if (!group_.take(daemon_.pid())) GTEST_SKIP() << "no memory control group can be made here";
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  ASSERT_TRUE(client.send(RawRank::attach_message("glutton", 0, uint64_t{512} << 20)));
  std::string text;
  while (text.find("wanted") == std::string::npos) {
    const auto answer = client.receive();
    ASSERT_TRUE(answer) << "no refusal";
    if (answer->type() == shm::MessageType::kError)
      text = shm::get_text(answer->as<shm::ErrorReply>().text);
  }
  EXPECT_THAT(text, HasSubstr("512.0 MiB of memory are wanted; control group '/"));
  EXPECT_THAT(text, HasSubstr("has 256.0 MiB"));
  EXPECT_LT(group_.used_bytes(), uint64_t{64} << 20) << "something was allocated all the same";
  {
    // What fits is given, to the last page.
    const auto rank = RawRank::attach(socket(), "modest", 0, uint64_t{100} << 20);
    ASSERT_NE(rank, nullptr);
    std::memset(rank->maps[RawRank::kArena].data(), 1, rank->maps[RawRank::kArena].size());
    EXPECT_TRUE(rank->barrier(0));
    EXPECT_GE(group_.used_bytes(), uint64_t{100} << 20);
    // A second one would not fit any more.
    RawClient second(socket());
    ASSERT_TRUE(second.hello());
    ASSERT_TRUE(second.send(RawRank::attach_message("second", 1, uint64_t{150} << 20)));
    EXPECT_THAT(second.error_text(), HasSubstr("150.0 MiB of memory are wanted; control group '/"));
  }
  EXPECT_EQ(group_.killed(), 0u);
}

// F25: exits 0 if a run works where /dev/shm has a full MiB and no more; 2 where it cannot be tried.
int run_with_a_full_dev_shm() {
  if (::unshare(CLONE_NEWNS) != 0) return 2;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 2;
  if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) return 2;
  {
    std::ofstream full("/dev/shm/full");
    for (int i = 0; i < 300; ++i) full << std::string(4096, 'x');
  }
  const DaemonProcess daemon;
  const auto rank = RawRank::attach(daemon.socket(), "no-shm", 0, uint64_t{64} << 20);
  if (rank == nullptr) return 1;
  std::memset(rank->maps[RawRank::kArena].data(), 1, rank->maps[RawRank::kArena].size());
  return rank->barrier(0) ? 0 : 1;
}

// F25
TEST(HostileShm, AFullDevShmHasNoEffect) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(run_with_a_full_dev_shm());
  int status = 0;
  ::waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace npu::test
