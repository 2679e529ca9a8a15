// Connections that only cost: floods, half-open ones, and the end of the descriptors (F20).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>

#include "tests/fault/hostile_fixture.hpp"

namespace npu::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// Connections of another user, held until the object goes.
class Crowd {
 public:
  struct Counts {
    int greeted = 0, refused_uid = 0, refused_house = 0, other = 0;
  };

  Crowd(const std::string& socket, uid_t uid, int connections) {
    int there[2], back[2];
    if (::pipe2(there, O_CLOEXEC) != 0 || ::pipe2(back, O_CLOEXEC) != 0) return;
    hold_.reset(there[1]);
    const UniqueFd hold(there[0]), result(back[0]);
    UniqueFd tell(back[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      hold_.reset();
      if (::setgroups(0, nullptr) != 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(255);
      fill(socket, connections, tell.get(), hold.get());
      ::_exit(0);
    }
    tell.reset();
    std::array<char, sizeof(Counts)> bytes;
    good_ = ::read(result.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    std::memcpy(&counts, bytes.data(), bytes.size());
  }
  ~Crowd() {
    // Not by closing: the children of later crowds have the same end.
    if (hold_.valid()) (void)!::write(hold_.get(), "x", 1);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  [[nodiscard]] bool good() const noexcept { return good_; }
  Counts counts;

 private:
  static void fill(const std::string& socket, int connections, int tell, int hold) {
    Counts counts;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < connections; ++i) {
      clients.push_back(std::make_unique<RawClient>(socket));
      (void)clients.back()->send(RawClient::good_hello());
      const auto answer = clients.back()->receive();
      const bool welcome = answer && answer->is<shm::Welcome>();
      const std::string text = answer && answer->size == sizeof(shm::ErrorReply)
                                   ? shm::get_text(answer->as<shm::ErrorReply>().text)
                                   : "";
      int& count = welcome                                        ? counts.greeted
                   : text.find("of one user") != std::string::npos ? counts.refused_uid
                   : text.find("connections, the limit is") != std::string::npos
                       ? counts.refused_house
                       : counts.other;
      ++count;
    }
    if (::write(tell, &counts, sizeof(counts)) != sizeof(counts)) return;
    char byte = 0;
    (void)!::read(hold, &byte, 1);
  }

  UniqueFd hold_;
  pid_t pid_ = -1;
  bool good_ = false;
};

class HostileConnections : public HostileTest {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    HostileTest::SetUp();
    open_to_everybody();
  }
};

// F20
TEST_F(HostileConnections, OneUserIsRefusedBeyondItsLimitAndTheAdminIsNot) {
  const Crowd crowd(socket(), 20'001, 100);
  ASSERT_TRUE(crowd.good());
  EXPECT_EQ(crowd.counts.greeted, 64);
  EXPECT_EQ(crowd.counts.refused_uid, 36) << "refused with a sentence";
  EXPECT_TRUE(client::query_info(socket()));
  EXPECT_EQ(as_user(20'002, [this] { return client::query_info(socket()) ? 0 : 1; }), 0);
}

// F20
TEST_F(HostileConnections, AFullHouseStillAdmitsTheAdmin) {
  std::vector<std::unique_ptr<Crowd>> crowds;
  int refused = 0;
  for (uid_t uid = 20'001; uid <= 20'005; ++uid) {
    crowds.push_back(std::make_unique<Crowd>(socket(), uid, 64));
    ASSERT_TRUE(crowds.back()->good());
    refused += crowds.back()->counts.refused_house;
    EXPECT_EQ(crowds.back()->counts.other, 0);
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(as_user(20'009, [this] { return client::query_info(socket()) ? 0 : 1; }), 1);
  EXPECT_TRUE(client::query_info(socket())) << "reserved for root";
}

// F20
TEST_F(HostileConnections, HalfOpenOnesAreBoundedAndEnd) {
  const int code = as_user(20'001, [this] {
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<RawClient>(socket()));
    int refused = 0;
    for (const auto& client : silent) {
      if (!client->ended()) return 1;  // the first ones after two seconds
      refused += client->last_words.find("said nothing yet") != std::string::npos ? 1 : 0;
    }
    return refused == 8 ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

/// The limit of the daemon's descriptors, put back at the end.
class FdLimit {
 public:
  FdLimit(pid_t pid, rlim_t limit) : pid_(pid) {
    rlimit now{};
    ::prlimit(pid_, RLIMIT_NOFILE, nullptr, &before_);
    now = before_;
    now.rlim_cur = limit;
    ::prlimit(pid_, RLIMIT_NOFILE, &now, nullptr);
  }
  ~FdLimit() { ::prlimit(pid_, RLIMIT_NOFILE, &before_, nullptr); }
  FdLimit(const FdLimit&) = delete;
  FdLimit& operator=(const FdLimit&) = delete;

 private:
  pid_t pid_;
  rlimit before_{};
};

// F20
TEST_F(HostileConnections, NewcomersLeaveDescriptorsForThoseWhoAreIn) {
  const FdLimit limit(daemon_.pid(), open_fds(daemon_.pid()) + 64 + 21);
  const Crowd crowd(socket(), 20'001, 40);
  ASSERT_TRUE(crowd.good());
  EXPECT_GT(crowd.counts.greeted, 0);
  EXPECT_GT(crowd.counts.other, 0) << "refused: no descriptors";
  const auto rank = RawRank::attach(socket(), "attaches", 0);
  ASSERT_NE(rank, nullptr) << "the admin's spare ones";
  EXPECT_TRUE(rank->barrier(0));
}

// F20: a full table refuses one client after the other, with the reserve, and does not spin.
TEST_F(HostileConnections, WithoutAnyDescriptorClientsAreRefusedAndNothingSpins) {
  {
    const FdLimit limit(daemon_.pid(), open_fds(daemon_.pid()));
    for (int i = 0; i < 3; ++i) {
      RawClient client(socket());
      EXPECT_THAT(client.error_text(),
                  AnyOf(HasSubstr("descriptor"), HasSubstr("Too many open files")));
    }
  }
  std::optional<RawClient> in_the_queue;
  {
    // Not even the number of the reserve is allowed: the client waits in the listener's queue.
    const FdLimit limit(daemon_.pid(), 3);
    in_the_queue.emplace(socket());
    ASSERT_TRUE(in_the_queue->send(RawClient::good_hello()));
    EXPECT_TRUE(bystander_.goes_on());
    pollfd p{in_the_queue->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&p, 1, 100), 0) << "nobody has taken it in";
  }
  const auto answer = in_the_queue->receive();
  EXPECT_TRUE(answer && answer->is<shm::Welcome>()) << "taken in as soon as it is possible";
  EXPECT_TRUE(client::query_info(socket()));
}

}  // namespace
}  // namespace npu::test
