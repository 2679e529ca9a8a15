// Administrators: root and the members of a group, by what the kernel says of them.
#include <gmock/gmock.h>

#include "tests/fault/hostile_client.hpp"
#include "tests/users/users_fixture.hpp"

namespace npu::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Admin = UsersTest;

TEST_F(Admin, SeesAllRunsAndWhoHoldsWhat) {
  start();
  UserProcess alice(kAlice, adding(socket(), "hers", 0)), bob(kBob, adding(socket(), "his", 2));
  ASSERT_EQ(alice.hear(), "running");
  ASSERT_EQ(bob.hear(), "running");
  const std::string seen = as(kCarol, [this] {
    const auto runs = client::list_runs(socket());
    const auto info = client::query_info(socket());
    if (!runs || !info) return std::string("not answered");
    std::string all;
    for (const auto& run : *runs) all += fmt::format("{} of {}; ", run.name, run.uid);
    return all + fmt::format("device 2: {} of {}", info->devices[2].run, info->devices[2].uid);
  });
  EXPECT_THAT(seen, AllOf(HasSubstr("hers of 20011"), HasSubstr("his of 20012"),
                          HasSubstr("device 2: his of 20012")));
  EXPECT_EQ(alice.ask("stop"), "ended well");
  EXPECT_EQ(bob.ask("stop"), "ended well");
}

TEST_F(Admin, EndsARunWithAReasonThatItsRanksAreTold) {
  start();
  UserProcess alice(kAlice, adding(socket(), "job", 0)), bob(kBob, adding(socket(), "job", 2));
  ASSERT_EQ(alice.hear(), "running");
  ASSERT_EQ(bob.hear(), "running");
  const auto evict = [this](int64_t uid) {
    return as(kCarol, [this, uid] {
      const auto ended = client::evict_run(socket(), "job", uid, "maintenance\nat 14:00");
      if (!ended) return text_of(ended.error());
      return fmt::format("{} ended, of {}, {}", ended->size(), (*ended)[0].uid, (*ended)[0].state);
    });
  };
  EXPECT_THAT(
      evict(-1),
      AllOf(HasSubstr("65 end run 'job': uids 20011, 20012 have one of that name; say whose")));
  EXPECT_EQ(evict(kAlice.uid), "1 ended, of 20011, aborted");
  const std::string why = alice.ask("why");
  EXPECT_THAT(why, AllOf(HasSubstr("77 run 'job' was ended by an administrator (uid 20013, pid"),
                         HasSubstr("maintenance"), HasSubstr("at 14:00")));
  EXPECT_EQ(why.find('\n'), std::string::npos) << "text of clients is made printable";
  EXPECT_EQ(bob.ask("more"), "running") << "the other user's run of that name goes on";
  // Its devices are free at once.
  UserProcess next(kAlice, adding(socket(), "job", 0));
  EXPECT_EQ(next.hear(), "running");
  EXPECT_EQ(next.ask("stop"), "ended well");
  EXPECT_EQ(bob.ask("stop"), "ended well");
}

TEST_F(Admin, AUserEndsItsOwnRunWithoutBeingOne) {
  start();
  UserProcess alice(kAlice, adding(socket(), "job", 0));
  ASSERT_EQ(alice.hear(), "running");
  EXPECT_EQ(as(kAlice,
               [this] {
                 const auto ended = client::evict_run(socket(), "job", -1, "");
                 return ended ? std::string("ended") : text_of(ended.error());
               }),
            "ended");
  EXPECT_THAT(alice.ask("why"), HasSubstr("77 run 'job' was ended by its user (uid 20011, pid"));
}

TEST_F(Admin, GetsInWhenTheHouseIsFull) {
  start("quotas: {sessions: 0}\n");
  UserProcess crowd(kAlice, [this](UserProcess& me) {
    std::vector<RawClient> clients;
    for (;;) {
      clients.emplace_back(socket());
      if (!clients.back().hello()) break;
    }
    me.say(std::to_string(clients.size() - 1));
    (void)me.hear();
    return 0;
  });
  ASSERT_EQ(crowd.hear(), "256");
  const auto look = [this] {
    const auto info = client::query_info(socket());
    return info ? std::string("in") : text_of(info.error());
  };
  EXPECT_THAT(as(kBob, look),
              HasSubstr("75 connect: the daemon has 256 connections, the limit is 256"));
  EXPECT_EQ(as(kCarol, look), "in") << "by its group";
  EXPECT_EQ(look(), "in") << "as root";
  crowd.say("enough");
  EXPECT_EQ(crowd.end(), 0);
}

TEST_F(Admin, LetsTheDaemonEndInOrder) {
  start();
  UserProcess alice(kAlice, adding(socket(), "job", 0));
  ASSERT_EQ(alice.hear(), "running");
  EXPECT_EQ(as(kCarol,
               [this] {
                 const auto drained = client::drain_daemon(socket());
                 return drained ? std::string("drains") : text_of(drained.error());
               }),
            "drains");
  EXPECT_THAT(alice.ask("why"), HasSubstr("the daemon is shutting down"));
  const int status = daemon_->stop(0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace npu::test
