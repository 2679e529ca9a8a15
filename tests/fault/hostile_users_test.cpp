// Another user, with everything guessed right (F23): no place in the run, no word about it.
#include <gmock/gmock.h>

#include "tests/fault/hostile_fixture.hpp"

namespace npu::test {
namespace {

constexpr uid_t kStranger = 20'001;
constexpr const char* kSecret = "secret-run";

class HostileUsers : public HostileTest {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    HostileTest::SetUp();
    open_to_everybody();
    rank_ = RawRank::attach(socket(), kSecret, 0, 1 << 20, 2, 0);
    ASSERT_NE(rank_, nullptr);
  }
  void TearDown() override {
    rank_.reset();
    HostileTest::TearDown();
  }

  /// Runs `body` as the stranger; its steps are numbered in the exit code.
  int as_stranger(const std::function<int(RawClient&)>& body) {
    return as_user(kStranger, [&] {
      RawClient client(socket());
      return client.hello() ? body(client) : 100;
    });
  }

  std::unique_ptr<RawRank> rank_;
};

template <typename M>
M named(const std::string& run) {
  auto message = shm::make_message<M>(5);
  shm::put_text(message.run, run);
  return message;
}

/// What the daemon answers, without the name that was asked for.
template <typename M>
std::string answer_about(RawClient& client, M message, const std::string& run) {
  shm::put_text(message.run, run);
  if (!client.send(message)) return "not sent";
  std::string text = client.error_text();
  for (size_t at = text.find(run); at != std::string::npos; at = text.find(run)) {
    text.replace(at, run.size(), "X");
  }
  return text;
}

// F23: run name and key are right, the uid is not: it forms a run of its own.
TEST_F(HostileUsers, TheRightKeyDoesNotLetAnotherUserIn) {
  const int code = as_stranger([](RawClient& client) {
    // The device of the other run: busy, and not a word about whom with.
    if (!client.send(RawRank::attach_message(kSecret, 0, 1 << 20, 2, 1))) return 1;
    const std::string held = client.error_text();
    if (held.find("another user holds it") == std::string::npos) return 2;
    if (held.find(kSecret) != std::string::npos || held.find("pid") != std::string::npos) return 3;
    if (!client.send(RawRank::attach_message(kSecret, 1, 1 << 20, 2, 1))) return 4;
    const auto own = client.receive();
    return own && own->is<shm::Attached>() ? 0 : 5;
  });
  EXPECT_EQ(code, 0);
  const auto runs = client::list_runs(socket());
  ASSERT_TRUE(runs);
  int secrets = 0;
  for (const auto& run : *runs) {
    if (run.name != kSecret || run.uid != 0) continue;
    ++secrets;
    EXPECT_EQ(run.joined, 1) << "the stranger is not among its ranks";
    EXPECT_EQ(run.state, "forming");
  }
  EXPECT_EQ(secrets, 1);
}

// F23: the answers for a run that is not yours and for one that is not there are the same.
TEST_F(HostileUsers, UnknownAndForbiddenAreOneAnswer) {
  const auto same = [](RawClient& client, const auto& message) {
    const std::string forbidden = answer_about(client, message, kSecret);
    const std::string unknown = answer_about(client, message, "no-such-run");
    return !forbidden.empty() && forbidden == unknown;
  };
  const int code = as_stranger([&](RawClient& client) {
    if (!same(client, shm::make_message<shm::TraceOpen>(5))) return 1;
    auto newest = shm::make_message<shm::CheckpointOpen>(5);
    newest.step = shm::kNewestStep;
    if (!same(client, newest)) return 2;
    return same(client, shm::make_message<shm::CheckpointList>(5)) ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

// F23: listings show that a device is taken, and by whom only to its user and to root.
TEST_F(HostileUsers, ListingsDoNotTellAboutOthersRuns) {
  const int code = as_user(kStranger, [this] {
    const auto info = client::query_info(socket());
    if (!info || !info->runs.empty()) return 1;
    const auto& device = info->devices[0];
    if (device.state != "busy" || !device.run.empty() || device.pid != 0 || device.uid >= 0) return 2;
    const auto runs = client::list_runs(socket());
    return runs && runs->empty() ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  const auto info = client::query_info(socket());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->devices[0].run, kSecret);
  EXPECT_EQ(info->devices[0].pid, ::getpid());
}

// F23: root sees and may read what a user runs.
TEST_F(HostileUsers, TheAdminSeesAllRuns) {
  int there[2], back[2];
  ASSERT_EQ(::pipe(there), 0);
  ASSERT_EQ(::pipe(back), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char byte = 0;
    if (::setresuid(kStranger, kStranger, kStranger) != 0) ::_exit(1);
    const auto rank = RawRank::attach(socket(), "of-a-user", 3);
    (void)!::write(there[1], rank != nullptr ? "y" : "n", 1);
    ::close(back[1]);
    (void)!::read(back[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(there[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  RawClient admin(socket());
  ASSERT_TRUE(admin.hello());
  ASSERT_TRUE(admin.send(named<shm::TraceOpen>("of-a-user")));
  const auto opened = admin.receive();
  EXPECT_TRUE(opened && opened->is<shm::TraceOpened>());
  for (const int fd : {there[0], there[1], back[0], back[1]}) ::close(fd);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace npu::test
