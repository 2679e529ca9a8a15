// What a real npud writes: key=value on stderr, fields in a journal, nothing that a client made up.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <map>

#include "tests/fault/hostile_client.hpp"
#include "tests/service/service_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What a client would write to forge a line, a field and a colour.
constexpr const char* kEvil = "evil'\nPRIORITY=0\x1f" "uid=0\x1b[31m\x7f";

/// A run of one rank whose checkpoint names a tensor like that.
void commit_evil(const std::string& socket) {
  const auto rank = RawRank::attach(socket, "evil-run", 0);
  ASSERT_NE(rank, nullptr);
  auto* row = static_cast<shm::SnapshotTensor*>(rank->maps[RawRank::kArena].data());
  *row = {};
  shm::put_text(row->name, kEvil);
  row->rank = 9;
  auto commit = shm::make_message<shm::CheckpointCommit>(7);
  commit.step = 3;
  commit.table_count = 1;
  commit.keep = 1;
  ASSERT_TRUE(rank->send(commit));
  EXPECT_THAT(rank->error_text(), HasSubstr("9 dimensions"));
}

class LoggingTest : public ServiceTest {
 protected:
  [[nodiscard]] bool says(const std::string& text) const {
    return eventually([&] { return npud_->err().find(text) != std::string::npos; });
  }
};

TEST_F(LoggingTest, StderrHasKeysAndValues) {
  start();
  EXPECT_TRUE(says("info ctl "));
  EXPECT_TRUE(says("listening socket='" + socket() + "' devices=8 engine_threads="));
  { const auto rank = RawRank::attach(socket(), "some-run", 5); }
  const std::string pid = std::to_string(::getpid()), uid = std::to_string(::getuid());
  EXPECT_TRUE(says("run complete run='some-run' generation=1 world=1 uid=" + uid));
  EXPECT_TRUE(says("run aborted run='some-run' generation=1 uid=" + uid + " rank=0 pid=" + pid + " reason='rank 0 (pid "))
      << npud_->err();
}

TEST_F(LoggingTest, WhatAClientMadeUpIsEscaped) {
  start();
  commit_evil(socket());
  EXPECT_TRUE(says("checkpoint failed run='evil-run' step=3")) << npud_->err();
  const std::string err = npud_->err();
  EXPECT_THAT(err, HasSubstr("evil\\'\\x0aPRIORITY=0\\x1fuid=0\\x1b[31m\\x7f"));
  for (const char c : err) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int{c};
}

TEST_F(LoggingTest, AFloodOfComplaintsIsCounted) {
  start();
  constexpr size_t kClients = 150;
  for (size_t i = 0; i < kClients; ++i) {
    RawClient client(socket());
    ASSERT_TRUE(client.send_bytes("garbage", 7));
    ASSERT_TRUE(client.ended());
  }
  EXPECT_TRUE(says("lines were left out what='complaint' not_logged="));
  const std::string err = npud_->err();
  const size_t written = count_of(err, "complaint what='ended a connection");
  EXPECT_GE(written, 20u);
  EXPECT_LT(written, kClients);
  // None is lost: what was not written was counted.
  size_t counted = 0;
  for (size_t at = err.find("not_logged="); at != err.npos; at = err.find("not_logged=", at + 1)) {
    counted += std::stoul(err.substr(at + 11));
  }
  EXPECT_EQ(written + counted, kClients) << err;
}

using Entry = std::map<std::string, std::string>;

/// A journal of its own: in a mount namespace of the daemon's, at the place that sd-journal sends to. Its
/// socket was made before the fork, so that this process reads what arrives.
class JournalTest : public LoggingTest {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, for a mount namespace";
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(::unshare(CLONE_NEWNS) == 0 ? 0 : 1);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) GTEST_SKIP() << "mount namespaces are not allowed here";
    start({.in_child = [this] { become_service(); }});
  }

  /// The next entry with this beginning of its message.
  Entry entry(const std::string& message) {
    const Deadline deadline = Deadline::after(kHang);
    while (!deadline.passed()) {
      pollfd ready{journal_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 1000) != 1) continue;
      char text[16384];
      const ssize_t n = ::recv(journal_.get(), text, sizeof(text), 0);
      if (n <= 0) continue;
      Entry found = parse(std::string(text, static_cast<size_t>(n)));
      if (found["MESSAGE"].starts_with(message)) return found;
    }
    ADD_FAILURE() << "the journal never got '" << message << "'; stderr: " << npud_->err();
    return {};
  }

 private:
  void become_service() {
    const auto must = [](bool good) {
      if (!good) ::_exit(126);
    };
    must(::unshare(CLONE_NEWNS) == 0);
    must(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    (void)::mkdir("/run/systemd", 0755);
    must(::mount("none", "/run/systemd", "tmpfs", 0, nullptr) == 0);
    must(::mkdir("/run/systemd/journal", 0755) == 0);
    const sockaddr_un address = unix_address("/run/systemd/journal/socket");
    must(::bind(journal_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    struct stat st {};
    must(::fstat(STDERR_FILENO, &st) == 0);
    const std::string stream = std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino);
    ::setenv("JOURNAL_STREAM", stream.c_str(), 1);
  }

  /// The journal's protocol: KEY=value lines; a value with line ends comes as its length and bytes.
  static Entry parse(const std::string& text) {
    Entry entry;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      const size_t equals = line.find('=');
      EXPECT_NE(equals, line.npos) << "a value with a line end in it: " << line;
      EXPECT_FALSE(entry.contains(line.substr(0, equals))) << "a field twice: " << line;
      if (equals != line.npos) entry[line.substr(0, equals)] = line.substr(equals + 1);
      at = end + 1;
    }
    return entry;
  }

  UniqueFd journal_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(JournalTest, EachKeyIsAField) {
  Entry listening = entry("listening socket='");
  EXPECT_EQ(listening["PRIORITY"], "6");
  EXPECT_EQ(listening["SYSLOG_IDENTIFIER"], "npud");
  EXPECT_EQ(listening["NPU_LOGGER"], "ctl");
  EXPECT_EQ(listening["NPU_SOCKET"], socket());
  EXPECT_EQ(listening["NPU_DEVICES"], "8");
  { const auto rank = RawRank::attach(socket(), "some-run", 5); }
  Entry complete = entry("run complete run='some-run'");
  EXPECT_EQ(complete["NPU_RUN"], "some-run");
  EXPECT_EQ(complete["NPU_UID"], std::to_string(::getuid()));
  Entry aborted = entry("run aborted");
  EXPECT_EQ(aborted["PRIORITY"], "4");
  EXPECT_EQ(aborted["NPU_LOGGER"], "live");
  EXPECT_EQ(aborted["NPU_RUN"], "some-run");
  EXPECT_EQ(aborted["NPU_RANK"], "0");
  EXPECT_EQ(aborted["NPU_PID"], std::to_string(::getpid()));
  EXPECT_THAT(aborted["NPU_REASON"], HasSubstr("rank 0 (pid "));
  EXPECT_EQ(npud_->err(), "") << "it went to both places";
}

TEST_F(JournalTest, NoFieldIsMadeUpByAClient) {
  commit_evil(socket());
  Entry failed = entry("checkpoint failed");
  EXPECT_EQ(failed["PRIORITY"], "3");
  EXPECT_EQ(failed["NPU_RUN"], "evil-run");
  EXPECT_FALSE(failed.contains("NPU_UID"));
  EXPECT_THAT(failed["NPU_REASON"], HasSubstr("evil'\\x0aPRIORITY=0\\x1fuid=0"));
}

TEST_F(LoggingTest, AJournalStreamThatIsNotStderrIsNotTaken) {
  start({.environment = {"JOURNAL_STREAM=1:1"}});
  EXPECT_TRUE(says("listening socket="));
}

}  // namespace
}  // namespace npu::test
