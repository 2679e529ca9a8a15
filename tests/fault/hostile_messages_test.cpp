// Control messages that no client of ours sends: F19, F21, F22, and the rates and bounds of B13.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>

#include <filesystem>
#include <random>

#include "tests/fault/hostile_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;

using HostileMessages = HostileTest;

// F22
TEST_F(HostileMessages, AnotherVersionIsRejectedWithBothSidesNamed) {
  const auto ours = fmt::format("{:016x}", shm::layout_hash());
  RawClient other_layout(socket());
  auto hello = RawClient::good_hello();
  hello.layout_hash = 0x1234567812345678;
  ASSERT_TRUE(other_layout.send(hello));
  const std::string layout = other_layout.error_text();
  EXPECT_THAT(layout, HasSubstr("layout 1234567812345678"));
  EXPECT_THAT(layout, HasSubstr("layout " + ours));
  EXPECT_TRUE(other_layout.ended());

  RawClient other_protocol(socket());
  hello = RawClient::good_hello();
  hello.protocol_major = 99;
  ASSERT_TRUE(other_protocol.send(hello));
  const std::string protocol = other_protocol.error_text();
  EXPECT_THAT(protocol, HasSubstr("speaks protocol 99."));
  EXPECT_THAT(protocol, HasSubstr(fmt::format("accepts {}.", shm::kProtocolMajor)));
}

// F22: a version of the future may greet with more, or with less.
TEST_F(HostileMessages, AGreetingOfAnotherSizeIsRejectedWithBothSidesNamed) {
  for (const size_t size : {size_t{40}, size_t{48}, size_t{200}, shm::kMaxMessageBytes}) {
    std::vector<char> bytes(size, 0);
    auto hello = RawClient::good_hello();
    hello.layout_hash = 42;
    hello.header.size = static_cast<uint32_t>(size);
    std::memcpy(bytes.data(), &hello, std::min(size, sizeof(hello)));
    RawClient client(socket());
    ASSERT_TRUE(client.send_bytes(bytes.data(), size));
    const std::string text = client.error_text();
    EXPECT_THAT(text, HasSubstr("layout 000000000000002a")) << size;
    EXPECT_THAT(text, HasSubstr(fmt::format("a greeting of {} bytes, not {}", sizeof(hello), size)));
    EXPECT_TRUE(client.ended());
  }
}

// F22
TEST_F(HostileMessages, WhatIsNoGreetingEndsTheConnection) {
  const auto good = RawClient::good_hello();
  const auto ends = [this](const void* bytes, size_t size) {
    RawClient client(socket());
    return client.send_bytes(bytes, size) && client.ended();
  };
  std::array<char, 8000> long_one{};
  std::memcpy(long_one.data(), &good, sizeof(good));
  EXPECT_TRUE(ends("", 0));
  EXPECT_TRUE(ends("x", 1));
  EXPECT_TRUE(ends(&good, 15));
  EXPECT_TRUE(ends(&good, sizeof(shm::MessageHeader)));
  EXPECT_TRUE(ends(&good, sizeof(good) - 1)) << "its header says another size";
  EXPECT_TRUE(ends(long_one.data(), long_one.size())) << "longer than any message";
  auto bad = good;
  bad.magic ^= 1;
  EXPECT_TRUE(ends(&bad, sizeof(bad)));
  bad = good;
  bad.header.type = static_cast<uint32_t>(shm::MessageType::kInfo);
  EXPECT_TRUE(ends(&bad, sizeof(bad)));
  std::mt19937 rng(1);
  for (int i = 0; i < 50; ++i) {
    std::array<uint32_t, 64> noise;
    for (auto& word : noise) word = static_cast<uint32_t>(rng());
    EXPECT_TRUE(ends(noise.data(), 1 + rng() % sizeof(noise)));
  }
}

// B13: exact length for its type, known type.
TEST_F(HostileMessages, OfEveryTypeAndLengthNoneHurtsTheDaemon) {
  constexpr size_t kLengths[] = {16,
                                 17,
                                 sizeof(shm::TraceOpen),
                                 sizeof(shm::CheckpointList),
                                 sizeof(shm::CheckpointOpen),
                                 sizeof(shm::CheckpointCommit),
                                 sizeof(shm::Attach),
                                 sizeof(shm::Attach) + 8,
                                 sizeof(shm::ErrorReply),
                                 shm::kMaxMessageBytes};
  std::mt19937 rng(2);
  for (uint32_t type = 0; type < 30; ++type) {
    for (const size_t size : kLengths) {
      std::vector<char> bytes(size);
      for (char& byte : bytes) byte = static_cast<char>(rng() % 3 == 0 ? rng() : 0);
      const shm::MessageHeader header{type, static_cast<uint32_t>(size), 7};
      std::memcpy(bytes.data(), &header, sizeof(header));
      RawClient client(socket());
      ASSERT_TRUE(client.hello());
      ASSERT_TRUE(client.send_bytes(bytes.data(), size)) << "type " << type << " size " << size;
      (void)client.receive();  // an answer, an error, or the end
    }
  }
}

// B13: reserved zero.
TEST_F(HostileMessages, ReservedBytesMustBeZero) {
  auto attach = RawRank::attach_message("reserved", 0, 1 << 20);
  attach.reserved = 1;
  auto list = shm::make_message<shm::CheckpointList>(3);
  list.verify = 2;
  auto commit = shm::make_message<shm::CheckpointCommit>(3);
  commit.memory = 2;
  const auto ends = [this](const auto& message) {
    RawClient client(socket());
    return client.hello() && client.send(message) && client.ended() &&
           client.last_words.find("reserved") != std::string::npos;
  };
  EXPECT_TRUE(ends(attach));
  EXPECT_TRUE(ends(list));
  EXPECT_TRUE(ends(commit));
}

/// Sends the write end of a pipe `copies` times with a message. True if the daemon ended the
/// connection and kept none of them.
bool descriptors_are_closed(const std::string& socket, bool greeted, size_t copies) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  RawClient client(socket);
  if (greeted && !client.hello()) return false;
  const std::vector<int> fds(copies, writer.get());
  const bool sent = greeted ? client.send(shm::make_plain(shm::MessageType::kInfo, 5), fds)
                            : client.send(RawClient::good_hello(), fds);
  writer.reset();
  if (!sent || !client.ended()) return false;
  pollfd p{reader.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&p, 1, 30'000) == 1 && ::read(reader.get(), &byte, 1) == 0;
}

// F21
TEST_F(HostileMessages, DescriptorsAreClosedAndTheConnectionEnds) {
  for (const size_t copies : {size_t{1}, size_t{8}, size_t{9}, size_t{253}}) {
    EXPECT_TRUE(descriptors_are_closed(socket(), false, copies)) << copies;
    EXPECT_TRUE(descriptors_are_closed(socket(), true, copies)) << copies;
  }
}

// F19
TEST_F(HostileMessages, AClientThatNeverReadsIsDisconnected) {
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  const Deadline deadline = Deadline::after(kHangLimit);
  bool hung_up = false;
  while (!hung_up && !deadline.passed()) {
    (void)client.send_plain(shm::MessageType::kInfo);
    pollfd p{client.fd(), POLLOUT, 0};
    (void)::poll(&p, 1, 100);
    hung_up = (p.revents & POLLHUP) != 0;
    ASSERT_TRUE(client::query_info(socket())) << "the daemon serves others meanwhile";
  }
  EXPECT_TRUE(hung_up);
}

// F19: descriptors that nobody takes are bounded, too.
TEST_F(HostileMessages, DescriptorsThatAreNotTakenDoNotPileUp) {
  auto open = shm::make_message<shm::TraceOpen>(4);
  shm::put_text(open.run, "bystander");
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  for (int i = 0; i < 300; ++i) (void)client.send(open);
  ASSERT_TRUE(client::query_info(socket()));
  EXPECT_LE(open_fds(daemon_.pid()), fds_before_ + 40);
}

// B12: a token bucket. 400 at once, then 200 a second; the others do not notice.
TEST_F(HostileMessages, AFloodIsSlowedDownAndNotFatal) {
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  const auto begin = Clock::now();
  constexpr int kMessages = 700;
  int sent = 0;
  int answered = 0;
  while (answered < kMessages) {
    while (sent < kMessages && sent - answered < 30 &&
           client.send_plain(shm::MessageType::kDetach)) {
      ++sent;
    }
    ASSERT_TRUE(client.receive());
    if (++answered % 100 != 0) continue;
    ASSERT_TRUE(client::query_info(socket()));
  }
  const std::chrono::duration<double> passed = Clock::now() - begin;
  EXPECT_GT(passed.count(), 1.0) << "300 messages beyond the burst take a second and a half";
}

TEST_F(HostileMessages, AFloodThatHangsUpIsForgotten) {
  for (int i = 0; i < 10; ++i) {
    RawClient client(socket());
    ASSERT_TRUE(client.hello());
    for (int n = 0; n < 1000; ++n) (void)client.send_plain(shm::MessageType::kDetach);
  }
}

/// A store whose disk is busy: somebody else holds the lock of the run that is written.
class BusyStore : public HostileTest {
 protected:
  void SetUp() override {
    HostileTest::SetUp();
    const std::string run = daemon_.state_dir() + "/" + std::to_string(::getuid()) + "/busy";
    std::filesystem::create_directories(run);
    lock_.reset(::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::flock(lock_.get(), LOCK_EX | LOCK_NB), 0);
    rank_ = RawRank::attach(socket(), "busy", 0);
    ASSERT_NE(rank_, nullptr);
    ASSERT_TRUE(commit(1));
  }
  void TearDown() override {
    lock_.reset();
    rank_.reset();
    HostileTest::TearDown();
  }

  bool commit(int64_t step) {
    auto* row = static_cast<shm::SnapshotTensor*>(rank_->maps[RawRank::kArena].data());
    *row = {};
    row->bytes = 4;
    row->offset = 8192;
    row->rank = 1;
    row->shape[0] = 1;
    row->dtype = static_cast<uint8_t>(DType::kFloat32);
    shm::put_text(row->name, "w");
    auto message = shm::make_message<shm::CheckpointCommit>(static_cast<uint64_t>(100 + step));
    message.index = index_++;
    message.step = step;
    message.table_count = 1;
    message.keep = 1;
    message.state_offset = 4096;
    message.state_bytes = 2;
    return rank_->send(message);
  }

  UniqueFd lock_;
  uint64_t index_ = 0;
  std::unique_ptr<RawRank> rank_;
};

// A full queue of the disk's thread once ended the daemon.
TEST_F(BusyStore, RequestsForCheckpointsAreRefusedBeyondABound) {
  RawClient client(socket());
  ASSERT_TRUE(client.hello());
  int refused = 0;
  const auto list = shm::make_message<shm::CheckpointList>(9);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(client.send(list)) << i;
    if (i < 8) continue;
    const std::string text = client.error_text();
    refused += text.find("8 of this connection are in progress, the limit is 8") !=
                       std::string::npos
                   ? 1
                   : 0;
  }
  EXPECT_EQ(refused, 292);
  lock_.reset();
  for (int i = 0; i < 8; ++i) {
    auto answer = client.receive();
    while (answer && answer->type() == shm::MessageType::kCheckpointRow) answer = client.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->type(), shm::MessageType::kEnd);
  }
}

TEST_F(BusyStore, RequestsOfOneUserAreRefusedBeyondABound) {
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto list = shm::make_message<shm::CheckpointList>(9);
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    // Whoever closes its connection still has its requests in the queue.
    RawClient gone(socket());
    ASSERT_TRUE(gone.hello());
    ASSERT_TRUE(gone.send(list));
    ASSERT_TRUE(gone.send_plain(shm::MessageType::kDetach));
    const auto answer = gone.receive();
    ASSERT_TRUE(answer);
    if (answer->size == sizeof(shm::ErrorReply)) {
      refused = true;
      EXPECT_THAT(shm::get_text(answer->as<shm::ErrorReply>().text), HasSubstr("the limit is 32"));
    }
  }
  EXPECT_TRUE(refused);
}

TEST_F(BusyStore, CommitsOfOneRunAreRefusedBeyondABound) {
  for (int64_t step = 2; step <= 10; ++step) ASSERT_TRUE(commit(step));
  int refused = 0;
  for (int i = 0; i < 6; ++i) {
    const std::string text = rank_->error_text();
    refused += text.find("are being written, the limit is 4") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(refused, 6);
  lock_.reset();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rank_->receive());
}

}  // namespace
}  // namespace npu::test
