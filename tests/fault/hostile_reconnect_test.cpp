// Clients that come to a new daemon with what no earlier one gave them (design page 019): refused
// by name, and the daemon serves on.
#include <fcntl.h>

#include "shm/journal_data.hpp"
#include "tests/fault/hostile_fixture.hpp"

namespace npu::test {
namespace {

using testing::Test;

constexpr size_t kJournalFd = 5;

class HostileReconnect : public Test {
 protected:
  /// Ranks of one run, whose daemon then dies and is started again.
  void lose_daemon(uint32_t world = 1) {
    for (uint32_t r = 0; r < world; ++r) {
      ranks_.push_back(RawRank::attach(daemon_.socket(), "lost", r, 1 << 20, world, r, true));
      ASSERT_NE(ranks_.back(), nullptr);
    }
    journal_ = RawMap(rank().fds[kJournalFd].get(), PROT_READ | PROT_WRITE);
    ASSERT_NE(journal_.data(), nullptr);
    (void)daemon_.stop(SIGKILL);
    daemon_.start();
    fds_before_ = open_fds(daemon_.pid());
  }
  void TearDown() override {
    ranks_.clear();
    EXPECT_TRUE(client::query_info(daemon_.socket()));
    EXPECT_TRUE(eventually([this] { return open_fds(daemon_.pid()) <= fds_before_ + 4; }))
        << open_fds(daemon_.pid()) << " descriptors, before " << fds_before_;
    EXPECT_NE(RawRank::attach(daemon_.socket(), "after", 0), nullptr);
    EXPECT_EQ(daemon_.stop(SIGTERM), 0);
  }

  RawRank& rank(uint32_t r = 0) { return *ranks_[r]; }
  shm::RunJournal& journal() { return *static_cast<shm::RunJournal*>(journal_.data()); }

  shm::Reconnect message(uint32_t r = 0) {
    auto message = shm::make_message<shm::Reconnect>(9);
    message.generation = rank(r).generation;
    message.arena_bytes = 1 << 20;
    message.job_hash = 1;
    message.world = static_cast<uint32_t>(ranks_.size());
    message.rank = r;
    message.device = r;
    shm::put_text(message.run, "lost");
    shm::put_text(message.key, "0123456789abcdef0123456789abcdef");
    return message;
  }
  std::vector<int> fds(uint32_t r = 0) {
    std::vector<int> all;
    for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{5}}) {
      all.push_back(rank(r).fds[i].get());
    }
    return all;
  }
  /// What the daemon answers: the error's text; "taken" for new pages; "ended" for nothing.
  std::string answer(RawClient& client, const shm::Reconnect& message,
                     const std::vector<int>& fds) {
    if (!client.hello() || !client.send(message, fds)) return "not sent";
    auto got = client.receive();
    if (!got) return "ended";
    if (got->is<shm::Reconnected>() && got->fds.size() == 2) {
      pages_ = std::move(got->fds);
      return "taken";
    }
    if (got->size != sizeof(shm::ErrorReply)) return "something else";
    return shm::get_text(got->as<shm::ErrorReply>().text);
  }
  std::string answer(const shm::Reconnect& message, const std::vector<int>& fds) {
    RawClient client(daemon_.socket());
    return answer(client, message, fds);
  }
  /// Rank 0 is taken, and looks at its new pages.
  void come_back(RawClient& client) {
    ASSERT_EQ(answer(client, message(), fds()), "taken");
    rank().maps[RawRank::kStatus] = RawMap(pages_[0].get(), PROT_READ);
    rank().maps[RawRank::kBoard] = RawMap(pages_[1].get(), PROT_READ);
  }
  /// What a daemon that died in the middle of an all-reduce leaves: it waits in the ring of rank 0,
  /// and the journal says how it was cut.
  void half_reduce(uint64_t count, uint64_t slices, uint64_t slice_elements) {
    auto& entry = rank().submit().entries[0];
    entry.generation = rank().generation;
    entry.op = static_cast<uint8_t>(shm::Op::kAllReduce);
    entry.dtype = static_cast<uint8_t>(DType::kFloat32);
    entry.count = count;
    journal().reduction.slices = slices;
    journal().reduction.slice_elements = slice_elements;
    journal().reduction.tickets[0] = 0;
    journal().reduction.state.store(1);
    rank().publish(0);
  }
  void expect_refused(const shm::Reconnect& message, const std::vector<int>& fds,
                      const std::string& why) {
    const std::string text = answer(message, fds);
    EXPECT_NE(text.find(why), std::string::npos) << text;
    ASSERT_TRUE(client::query_info(daemon_.socket()));
    // The failed attempt's place is given back with its connection.
    EXPECT_TRUE(eventually([this] {
      const auto info = client::query_info(daemon_.socket());
      return info && info->devices[0].state == "idle" && info->devices[1].state == "idle";
    }));
  }

  DaemonProcess daemon_;
  std::vector<std::unique_ptr<RawRank>> ranks_;
  RawMap journal_;
  std::vector<UniqueFd> pages_;
  size_t fds_before_ = 0;
};

TEST_F(HostileReconnect, AnHonestOneIsTakenAndServed) {
  lose_daemon();
  RawClient client(daemon_.socket());
  come_back(client);
  EXPECT_TRUE(rank().barrier(0));
  // The page that only the daemon writes is a new one.
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pages_[0].get(), 0),
            MAP_FAILED);
}

TEST_F(HostileReconnect, OtherNumbersOfDescriptorsEndTheConnection) {
  lose_daemon();
  auto four = fds();
  four.pop_back();
  EXPECT_NE(answer(message(), four).find("descriptors"), std::string::npos);
  auto six = fds();
  six.push_back(six[0]);
  EXPECT_NE(answer(message(), six).find("descriptors"), std::string::npos);
  auto reserved = message();
  reserved.reserved = 1;
  EXPECT_NE(answer(reserved, fds()).find("reserved"), std::string::npos);
}

TEST_F(HostileReconnect, WhatNoDaemonMadeIsRefused) {
  lose_daemon();
  const UniqueFd own(::memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(own.get(), 1 << 20), 0);
  auto with_own = fds();
  with_own[0] = own.get();
  expect_refused(message(), with_own, "take back the arena: seals are");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  for (size_t i = 0; i < 5; ++i) {
    auto with_pipe = fds();
    with_pipe[i] = reader.get();
    expect_refused(message(), with_pipe, "take");
  }
  auto swapped = fds();
  std::swap(swapped[1], swapped[2]);  // submit page and status page
  expect_refused(message(), swapped, "take back the submit page: it has");
  swapped = fds();
  swapped[3] = rank().fds[RawRank::kBoard].get();
  expect_refused(message(), swapped, "take back the hint page: it has");
  auto larger = message();
  larger.arena_bytes = 2 << 20;
  expect_refused(larger, fds(), "take back the arena: it has 1048576 bytes, expected 2097152");
  auto later = message();
  ++later.generation;
  expect_refused(later, fds(), "expected kind 2 generation");
}

TEST_F(HostileReconnect, MemoryOfAnotherUserIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  lose_daemon();
  const UniqueFd file(::memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fchown(file.get(), 65534, 65534), 0);
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  auto with_theirs = fds();
  with_theirs[0] = file.get();
  expect_refused(message(), with_theirs, "uid 65534 made it, npud runs as uid 0");
}

TEST_F(HostileReconnect, PlacesAreThoseOfAnAttach) {
  lose_daemon();
  auto wrong = message();
  wrong.rank = 1;
  expect_refused(wrong, fds(), "rank 1 of 1 is not possible");
  wrong = message();
  wrong.device = 99;
  expect_refused(wrong, fds(), "this daemon has devices 0 to 7");
  wrong = message();
  shm::put_text(wrong.run, "../../etc");
  expect_refused(wrong, fds(), "the run name must be");
  RawClient first(daemon_.socket());
  ASSERT_EQ(answer(first, message(), fds()), "taken");
  EXPECT_NE(answer(message(), fds()).find("it is complete"), std::string::npos);
  auto other_key = message();
  shm::put_text(other_key.key, "ffff");
  EXPECT_NE(answer(other_key, fds()).find("another launch"), std::string::npos);
  auto other_name = message();
  shm::put_text(other_name.run, "thief");
  EXPECT_NE(answer(other_name, fds()).find("holds it since"), std::string::npos);
}

// A run whose ranks are coming back is not joined in the ordinary way, nor the other way round.
TEST_F(HostileReconnect, ReturningAndAttachingDoNotMix) {
  lose_daemon(2);
  RawClient first(daemon_.socket());
  ASSERT_TRUE(first.hello() && first.send(message(0), fds(0)));
  RawClient second(daemon_.socket());
  ASSERT_TRUE(second.hello());
  ASSERT_TRUE(eventually([this] {
    const auto info = client::query_info(daemon_.socket());
    return info && info->devices[0].state == "busy";
  }));
  ASSERT_TRUE(second.send(RawRank::attach_message("lost", 1, 1 << 20, 2, 1)));
  EXPECT_NE(second.error_text().find("its ranks are coming back"), std::string::npos);
}

TEST_F(HostileReconnect, RanksOfOneRunHoldOneJournalAndArenasOfTheirOwn) {
  lose_daemon(2);
  RawClient first(daemon_.socket());
  ASSERT_TRUE(first.hello() && first.send(message(0), fds(0)));
  auto same_arena = fds(1);
  same_arena[0] = fds(0)[0];
  expect_refused(message(1), same_arena, "rank 1 brings an arena that another rank has brought");
  EXPECT_NE(first.error_text().find("rank 1 brings an arena"), std::string::npos);
}

// F31
TEST_F(HostileReconnect, AJournalThatIsDamagedIsRefused) {
  lose_daemon();
  const uint64_t marks = journal().run.marks;
  for (const uint64_t wrong : {uint64_t{0}, marks + 4096, ~uint64_t{0}}) {
    journal().run.marks = wrong;
    expect_refused(message(), fds(), "the run's journal is damaged");
  }
  journal().run.marks = marks;
  journal().run.split.store(1);
  expect_refused(message(), fds(), "communicators that were made by split");
}

// F31: what it says of the operation in progress cannot be. That operation fails, by name.
TEST_F(HostileReconnect, AJournalThatDoesNotFitTheOperationIsAnErrorOfTheOperation) {
  lose_daemon();
  half_reduce(100'000, 3, 4095);
  RawClient client(daemon_.socket());
  come_back(client);
  EXPECT_EQ(rank().answer(0), static_cast<int>(Code::kUnavailable));
  EXPECT_TRUE(rank().barrier(1)) << "the next operation is served";
}

TEST_F(HostileReconnect, MarksThatAreNoneAreAnErrorOfTheOperation) {
  lose_daemon();
  half_reduce(100'000, 7, 16'384);
  static_cast<uint8_t*>(journal_.data())[sizeof(shm::RunJournal) + 3] = 77;
  RawClient client(daemon_.socket());
  come_back(client);
  EXPECT_EQ(rank().answer(0), static_cast<int>(Code::kUnavailable));
}

// Each begun slice is work for the engine before anyone else's turn comes.
TEST_F(HostileReconnect, MoreSlicesBegunThanThreadsCanHaveIsAnErrorOfTheOperation) {
  lose_daemon();
  half_reduce(25 * 4096, 25, 4096);
  std::memset(static_cast<uint8_t*>(journal_.data()) + sizeof(shm::RunJournal),
              shm::kSliceHeld + 1, 25);
  RawClient client(daemon_.socket());
  come_back(client);
  EXPECT_EQ(rank().answer(0), static_cast<int>(Code::kUnavailable));
}

TEST_F(HostileReconnect, TheJournalOfARunThatIsHereIsRefused) {
  lose_daemon();
  RawClient first(daemon_.socket());
  ASSERT_EQ(answer(first, message(), fds()), "taken");
  auto twin = message();
  shm::put_text(twin.run, "twin");
  twin.device = 1;
  auto handles = fds();
  EXPECT_NE(answer(twin, handles).find("brings the journal of a run that is here"),
            std::string::npos);
}

// A verdict that was never reached tells its forger lies, and nobody else anything.
TEST_F(HostileReconnect, AForgedVerdictIsBelievedByItsForger) {
  lose_daemon();
  shm::Verdict& verdict = journal().verdict;
  verdict.rank_mask = ~0u;
  for (auto& ticket : verdict.tickets) ticket = 5;
  verdict.second_ticket = shm::kNoTicket - 1;
  verdict.code = 200;
  verdict.text_bytes = ~0u;
  verdict.state.store(1);
  RawClient client(daemon_.socket());
  EXPECT_EQ(answer(client, message(), fds()), "taken");
}

TEST_F(HostileReconnect, GarbageHurtsNobody) {
  lose_daemon();
  uint64_t random = 1;
  const auto next = [&random] {
    return random = random * 6364136223846793005u + 1442695040888963407u;
  };
  for (int i = 0; i < 300; ++i) {
    auto wrong = message();
    auto* bytes = reinterpret_cast<unsigned char*>(&wrong);
    for (int n = 0; n < 3; ++n) {
      bytes[sizeof(shm::MessageHeader) +
            (next() >> 33) % (sizeof(wrong) - sizeof(shm::MessageHeader))] =
          static_cast<unsigned char>(next() >> 56);
    }
    auto handles = fds();
    if (i % 3 == 0) std::swap(handles[(next() >> 33) % 5], handles[(next() >> 33) % 5]);
    (void)answer(wrong, handles);
  }
}

}  // namespace
}  // namespace npu::test
