// The line for busy devices, as the daemon keeps it: first come, first served, whole or not at all.
#include <gmock/gmock.h>

#include "tests/fault/hostile_client.hpp"
#include "tests/fault/hostile_fixture.hpp"
#include "tests/users/users_fixture.hpp"

namespace npu::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A launcher, as far as the line knows it.
class Launcher : public RawClient {
 public:
  Launcher(const std::string& socket, const std::string& run, uint32_t devices)
      : RawClient(socket) {
    if (!hello()) return;
    auto join = shm::make_message<shm::QueueJoin>(7);
    join.devices = devices;
    shm::put_text(join.run, run);
    (void)send(join);
  }
  /// "granted", "place 2: why", or an error.
  std::string hear() {
    const auto message = receive();
    if (!message) return "closed";
    if (message->type() == shm::MessageType::kQueueGranted) return "granted";
    if (message->is<shm::QueuePlace>()) {
      const auto place = message->as<shm::QueuePlace>();
      return fmt::format("place {}: {}", place.place, shm::get_text(place.text));
    }
    if (message->size != sizeof(shm::ErrorReply)) return "?";
    const auto error = message->as<shm::ErrorReply>();
    return fmt::format("{} {}", error.exit, shm::get_text(error.text));
  }
  /// What it hears until that comes.
  std::string hear_until(const std::string& text) {
    std::string all, heard;
    do {
      heard = hear();
      all += heard + "\n";
    } while (heard.find(text) == std::string::npos && heard != "closed");
    return all;
  }
};

class QueueTest : public testing::Test {
 protected:
  [[nodiscard]] const std::string& socket() const { return daemon_.socket(); }
  [[nodiscard]] std::unique_ptr<RawRank> hold(const std::string& run, uint32_t device) {
    return RawRank::attach(socket(), run, device);
  }
  /// "a running 0, b pending 1": runs in the order of the daemon's list.
  std::string listed() {
    const auto runs = client::list_runs(socket());
    std::string all;
    if (!runs) return runs.error().message;
    for (const auto& run : *runs) {
      if (run.state == "ended" || run.state == "aborted") continue;
      all += fmt::format("{}{} {} {}", all.empty() ? "" : ", ", run.name, run.state, run.place);
    }
    return all;
  }

  DaemonProcess daemon_;
};

TEST_F(QueueTest, FreeDevicesAreGivenAtOnceAndKeptForTheRun) {
  Launcher sut(socket(), "mine", 0b11);
  ASSERT_EQ(sut.hear(), "granted");
  EXPECT_EQ(listed(), "mine pending 0") << "its ranks have not come yet";
  RawClient other(socket());
  ASSERT_TRUE(other.hello());
  ASSERT_TRUE(other.send(RawRank::attach_message("other", 1, 1 << 20)));
  EXPECT_THAT(other.error_text(),
              AllOf(HasSubstr("attach device 1: it is kept for a launch that came before, of your "
                              "run 'mine'"),
                    HasSubstr("npu launch --wait")));
  EXPECT_NE(hold("mine", 0), nullptr);
  sut.close();
  EXPECT_NE(hold("other", 1), nullptr) << "given back with the connection";
}

TEST_F(QueueTest, AWideLaunchIsNotOvertakenByNarrowOnes) {
  const auto busy = hold("busy", 0);
  ASSERT_NE(busy, nullptr);
  Launcher wide(socket(), "wide", 0b1111);
  EXPECT_EQ(wide.hear(), "place 1: device 0: your run 'busy'");
  Launcher narrow(socket(), "narrow", 0b0010);
  EXPECT_EQ(narrow.hear(), "place 2: 1 launch came before and waits for some of them, too");
  Launcher elsewhere(socket(), "elsewhere", 0b1'0000);
  EXPECT_EQ(elsewhere.hear(), "granted") << "who wants other devices does not wait";
  EXPECT_EQ(listed(), "busy running 0, wide pending 1, narrow pending 2, elsewhere pending 0");

  RawClient rank(socket());
  ASSERT_TRUE(rank.hello());
  ASSERT_TRUE(rank.send(RawRank::attach_message("sneaky", 2, 1 << 20)));
  EXPECT_THAT(rank.error_text(),
              HasSubstr("waited for by a launch that came before, of your run 'wide'"));

  ASSERT_TRUE(busy->send_plain(shm::MessageType::kDetach));
  EXPECT_THAT(wide.hear_until("granted"), HasSubstr("granted"));
  EXPECT_THAT(narrow.hear_until("device"), HasSubstr("place 1: device 1: your run 'wide'"));
  wide.close();
  EXPECT_THAT(narrow.hear_until("granted"), HasSubstr("granted"));
}

TEST_F(QueueTest, AWaitingLauncherThatDiesLeavesTheLineAtOnce) {
  const auto busy = hold("busy", 0);
  ASSERT_NE(busy, nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    Launcher first(socket(), "first", 0b11);
    (void)first.hear();
    ::pause();
  }
  ASSERT_TRUE(eventually([this] { return listed() == "busy running 0, first pending 1"; }));
  Launcher second(socket(), "second", 0b10);
  EXPECT_THAT(second.hear(), HasSubstr("place 2"));
  ::kill(pid, SIGKILL);
  EXPECT_THAT(second.hear_until("granted"), HasSubstr("granted"));
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(listed(), "busy running 0, second pending 0");
}

TEST_F(QueueTest, ARunThatFormsAlreadyGoesBeforeThoseWhoWait) {
  auto first = RawRank::attach(socket(), "forming", 0, 1 << 20, 2, 0);
  ASSERT_NE(first, nullptr);
  Launcher wide(socket(), "wide", 0b11);
  EXPECT_EQ(wide.hear(), "place 1: device 0: your run 'forming'");
  EXPECT_NE(RawRank::attach(socket(), "forming", 1, 1 << 20, 2, 1), nullptr);
}

TEST_F(QueueTest, TwoLaunchesOfOneNameRunOneAfterTheOther) {
  Launcher first(socket(), "job", 0b01), second(socket(), "job", 0b10);
  ASSERT_EQ(first.hear(), "granted");
  EXPECT_EQ(second.hear(), "place 1: your run 'job' is going on");
  Launcher other(socket(), "other", 0b10);
  EXPECT_EQ(other.hear(), "granted") << "it waits for its own user, so it stands in nobody's way";
  other.close();
  first.close();
  EXPECT_THAT(second.hear_until("granted"), HasSubstr("granted"));
}

TEST_F(QueueTest, WhatIsWrongWithARequestIsSaid) {
  EXPECT_THAT(Launcher(socket(), "a", 0).hear(),
              HasSubstr("64 wait for no device: this daemon has devices 0 to 7"));
  EXPECT_THAT(Launcher(socket(), "a", 0b11'0000'0000).hear(),
              HasSubstr("64 wait for devices 8-9: this daemon has devices 0 to 7"));
  EXPECT_THAT(Launcher(socket(), "../a", 1).hear(),
              HasSubstr("64 wait for devices: the run name must be"));
  Launcher twice(socket(), "a", 1);
  ASSERT_EQ(twice.hear(), "granted");
  auto join = shm::make_message<shm::QueueJoin>(8);
  join.devices = 2;
  shm::put_text(join.run, "b");
  ASSERT_TRUE(twice.send(join));
  EXPECT_THAT(twice.hear(), HasSubstr("waits or holds a device already"));
  join.reserved = 1;
  ASSERT_TRUE(twice.send(join));
  EXPECT_TRUE(twice.ended());
  EXPECT_THAT(twice.last_words, HasSubstr("set reserved bytes"));
}

TEST_F(QueueTest, ADeviceThatIsNotThereIsNobodysPlace) {
  Launcher waiting(socket(), "waiting", 1);
  ASSERT_EQ(waiting.hear(), "granted");
  RawClient rank(socket());
  ASSERT_TRUE(rank.hello());
  for (const uint32_t device : {8U, 32U, ~0U}) {
    ASSERT_TRUE(rank.send(RawRank::attach_message("a", device, 1 << 20)));
    EXPECT_THAT(rank.error_text(), HasSubstr("this daemon has devices 0 to 7"));
  }
}

TEST_F(QueueTest, ThoseWhoWaitAreToldThatTheDaemonEnds) {
  const auto busy = hold("busy", 0);
  Launcher waiting(socket(), "waiting", 1);
  EXPECT_THAT(waiting.hear(), HasSubstr("place 1"));
  ::kill(daemon_.pid(), SIGTERM);
  EXPECT_EQ(waiting.hear(), "69 wait for devices: the daemon is shutting down");
  EXPECT_EQ(daemon_.stop(0), 0);
}

TEST_F(QueueTest, AnEvictedLaunchIsToldAndLeaves) {
  const auto busy = hold("busy", 0);
  Launcher waiting(socket(), "waiting", 1);
  EXPECT_THAT(waiting.hear(), HasSubstr("place 1"));
  ASSERT_TRUE(client::evict_run(socket(), "waiting", -1, "not today"));
  EXPECT_THAT(waiting.hear(),
              AllOf(HasSubstr("77 run 'waiting' was ended by its user"), HasSubstr("not today")));
  EXPECT_EQ(listed(), "busy running 0");
}

class QueueOfUsers : public UsersTest {};

TEST_F(QueueOfUsers, StrangersAreAnotherUserAndAreNotListed) {
  start();
  UserProcess alice(kAlice, adding(socket(), "secret", 0));
  ASSERT_EQ(alice.hear(), "running");
  const std::string seen = as(kBob, [this] {
    Launcher mine(socket(), "mine", 0b1);
    const std::string place = mine.hear();
    const auto runs = client::list_runs(socket());
    return fmt::format("{}; {} listed, {}", place, runs ? runs->size() : 99,
                       runs ? (*runs)[0].state : "");
  });
  EXPECT_EQ(seen, "place 1: device 0: another user; 1 listed, pending");
  UserProcess waiting(kBob, [this](UserProcess& me) {
    Launcher mine(socket(), "mine", 0b11);
    me.say(mine.hear());
    me.say(mine.hear_until("granted"));
    return 0;
  });
  EXPECT_THAT(waiting.hear(), HasSubstr("devices 0-1: another user"));
  EXPECT_THAT(as(kAlice,
                 [this] {
                   AddingRun run(socket(), "second", 0);
                   return run.why();
                 }),
              AllOf(HasSubstr("of another user"), Not(HasSubstr("mine"))));
  EXPECT_EQ(alice.ask("stop"), "ended well");
  EXPECT_THAT(waiting.hear(), HasSubstr("granted"));
  EXPECT_EQ(waiting.end(), 0);
}

TEST_F(QueueOfUsers, WhoUsesUpItsQuotaWaitsForItselfAlone) {
  start("quotas: {devices: 2}\n");
  UserProcess alice(kAlice, adding(socket(), "first", 0));
  ASSERT_EQ(alice.hear(), "running");
  UserProcess more(kAlice, [this](UserProcess& me) {
    Launcher too_wide(socket(), "wide", 0b111'0000);
    me.say(too_wide.hear());
    Launcher second(socket(), "second", 0b1'0000);
    me.say(second.hear());
    me.say(second.hear_until("granted"));
    return 0;
  });
  EXPECT_THAT(
      more.hear(),
      HasSubstr("77 wait for devices 4-6: 3 devices are wanted, uid 20011 uses 0, the limit is 2"));
  EXPECT_THAT(
      more.hear(),
      HasSubstr("place 1: your runs use up your quota of 2 devices (quotas.devices of npud)"));
  EXPECT_EQ(as(kBob, [this] { return Launcher(socket(), "his", 0b1'0000).hear(); }), "granted");
  EXPECT_EQ(alice.ask("stop"), "ended well");
  EXPECT_THAT(more.hear(), HasSubstr("granted"));
  EXPECT_EQ(more.end(), 0);
}

}  // namespace
}  // namespace npu::test
