// Quotas of a user, each with wanted, used, limit and its key. F24.
#include <gmock/gmock.h>

#include "tests/fault/hostile_client.hpp"
#include "tests/fault/store_fixture.hpp"
#include "tests/users/users_fixture.hpp"

namespace npu::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class QuotaTest : public UsersTest {
 protected:
  /// Why a run of two ranks does not come to be, or "running".
  std::string try_run(const User& user, const std::string& run, uint32_t device,
                      uint64_t arena = 1 << 20) {
    return as(user, [&] {
      AddingRun sut(socket(), run, device, arena);
      return sut.goes_on();
    });
  }
};

TEST_F(QuotaTest, DevicesOfOneUserAreBoundedAndOfAnotherAreNot) {
  start(fmt::format("quotas: {{devices: 3, users: {{{}: {{devices: 1}}, {}: {{devices: 0}}}}}}\n",
                    kBob.uid, kCarol.uid));
  UserProcess alice(kAlice, adding(socket(), "first", 0));
  ASSERT_EQ(alice.hear(), "running");
  EXPECT_THAT(try_run(kAlice, "second", 2),
              HasSubstr("75 attach 2 ranks of run 'second': 2 devices are wanted, uid 20011 uses "
                        "2, the limit is 3 "
                        "(quotas.devices of npud)"));
  EXPECT_THAT(try_run(kBob, "first", 2), HasSubstr("77 attach 2 ranks of run 'first': 2 devices "
                                                   "are wanted, uid 20012 uses 0, the limit is 1"));
  UserProcess carol(kCarol, adding(socket(), "one", 2)), again(kCarol, adding(socket(), "two", 4));
  EXPECT_EQ(carol.hear(), "running");
  EXPECT_EQ(again.hear(), "running");
  EXPECT_EQ(alice.ask("stop"), "ended well");
  UserProcess second(kAlice, adding(socket(), "second", 0));
  EXPECT_EQ(second.hear(), "running") << "what was given back can be had again";
}

TEST_F(QuotaTest, DeviceMemoryIsBounded) {
  start("quotas: {memory: 9MiB}\n");
  UserProcess alice(kAlice, adding(socket(), "first", 0, 4 << 20));
  ASSERT_EQ(alice.hear(), "running");
  EXPECT_THAT(try_run(kAlice, "second", 2, 1 << 20),
              HasSubstr("75 attach 2 ranks of run 'second': 2.0 MiB of device memory are wanted, "
                        "uid 20011 uses 8.0 "
                        "MiB, the limit is 9.0 MiB (quotas.memory of npud)"));
  EXPECT_EQ(try_run(kBob, "second", 2, 1 << 20), "running");
  EXPECT_EQ(try_run(kAlice, "small", 2, 1 << 19), "running");
}

TEST_F(QuotaTest, ConnectionsAreBounded) {
  start("quotas: {sessions: 3}\n");
  const std::string said = as(kAlice, [this] {
    std::vector<RawClient> in;
    for (int i = 0; i < 3; ++i) {
      in.emplace_back(socket());
      if (!in.back().hello()) return std::string("not let in");
    }
    const auto one_more = client::query_info(socket());
    return one_more ? std::string("in") : text_of(one_more.error());
  });
  EXPECT_THAT(
      said,
      HasSubstr(
          "75 connect: 1 more is wanted, uid 20011 has 3 connections, the limit of one user is 3 "
          "(quotas.sessions of npud)"));
  EXPECT_EQ(as(kBob, [this] { return client::query_info(socket()) ? "in" : "out"; }), "in");
}

TEST_F(QuotaTest, CheckpointsOnDiskAreBounded) {
  start("quotas: {checkpoints: 5MiB}\n");  // one is 3.2 MB
  const std::string said = as(kAlice, [this] {
    fault::TinyRun run(socket());
    const auto first = run.commit(1, 1).get();
    const auto second = run.commit(2, 2).get();
    return fmt::format("first {}; {}", first.has_value(),
                       second ? "written" : text_of(second.error()));
  });
  EXPECT_THAT(
      said,
      AllOf(HasSubstr(
                "first true; 73 checkpoint step 2 of run 'tiny': 3.1 MiB are wanted, the "
                "checkpoints of uid 20011 have 3.1 MiB, the limit is 5.0 MiB (quotas.checkpoints"),
            HasSubstr("checkpoint.keep")));
  EXPECT_EQ(as(kBob,
               [this] {
                 fault::TinyRun run(socket());
                 return run.commit(1, 1).get() ? "written" : "refused";
               }),
            "written");
}

TEST_F(QuotaTest, SnapshotsBeingWrittenAreBounded) {
  start("quotas: {staged: 1MiB}\n");
  const std::string said = as(kAlice, [this] {
    fault::TinyRun run(socket());
    const auto report = run.commit(1, 1).get();
    return report ? std::string("written") : text_of(report.error());
  });
  EXPECT_THAT(
      said,
      HasSubstr(
          "77 checkpoint step 1 of run 'tiny': 3.1 MiB of snapshots being written are wanted, uid "
          "20011 uses 0 B, the limit is 1.0 MiB (quotas.staged of npud)"));
}

TEST_F(QuotaTest, MessagesOfAllConnectionsTogetherAreSlowedDown) {
  start("quotas: {messages_per_second: 1}\n");  // 32 at once
  UserProcess flood(kAlice, [this](UserProcess& me) {
    std::vector<RawClient> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back(socket());
      if (!clients.back().hello()) return 1;
    }
    for (auto& client : clients) {
      for (int n = 0; n < 40; ++n) (void)client.send_plain(shm::MessageType::kPs);
    }
    for (int n = 0; n < 10; ++n) (void)clients[0].receive();
    me.say("sent");
    (void)me.hear();
    // Each alone would have had its 40 answers.
    size_t answers = 10;
    shm::Received message;
    for (auto& client : clients) {
      while (shm::receive(client.fd(), message) == shm::ReceiveStatus::kMessage) ++answers;
    }
    return answers < 120 ? 0 : 2;
  });
  ASSERT_EQ(flood.hear(), "sent");
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(client::list_runs(socket())) << "others are served meanwhile";
  flood.say("look");
  EXPECT_EQ(flood.end(), 0);
}

TEST_F(QuotaTest, AConfigurationThatCannotBeMeantStopsTheDaemonAtItsStart) {
  const auto start_with = [this](const std::string& yaml) {
    const std::string file = dir_.path() + "/bad.yaml", out = dir_.path() + "/err";
    std::ofstream(file) << yaml;
    const int status =
        std::system(fmt::format("{} --config {} --runtime-dir {}/r --state-dir {}/s 2>{}",
                                program("npud"), file, dir_.path(), dir_.path(), out)
                        .c_str());
    std::ifstream said(out);
    return std::to_string(WEXITSTATUS(status)) + " " +
           std::string((std::istreambuf_iterator<char>(said)), {});
  };
  EXPECT_THAT(start_with("quotas: {users: {no-such-user-here: {devices: 1}}}\n"),
              HasSubstr("78 npud: error: quotas.users: this host has no user 'no-such-user-here'"));
  EXPECT_THAT(
      start_with("admin_group: no-such-group-here\n"),
      HasSubstr("78 npud: error: admin_group: this host has no group 'no-such-group-here'"));
}

}  // namespace
}  // namespace npu::test
