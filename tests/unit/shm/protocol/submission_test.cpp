#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "shm/base/dtype.hpp"
#include "shm/board_data.hpp"
#include "shm/messages.hpp"
#include "shm/segment.hpp"
#include "shm/submit_client.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::shm {
namespace {

constexpr SubmissionLimits kLimits{.generation = 7, .arena_bytes = 1 << 20, .world = 4, .rank = 1};

Submission good(Op op = Op::kAllReduce) {
  Submission s{};
  s.generation = 7;
  s.op = static_cast<uint8_t>(op);
  s.dtype = static_cast<uint8_t>(DType::kFloat32);
  s.count = 1000;
  s.send_offset = 0;
  s.recv_offset = 512 * 1024;
  return s;
}

TEST(LayoutHash, IsPinnedToTheProtocolVersion) {
  // Changes whenever a shared structure does: then raise kProtocolMajor, or update this while no
  // version is out.
  EXPECT_EQ(layout_hash(), 6915595083708431834u);
}

TEST(Validate, AcceptsEveryOperation) {
  for (uint8_t op = 1; op < kOpCount; ++op)
    EXPECT_EQ(validate(good(static_cast<Op>(op)), kLimits), Fault::kNone) << int{op};
}

TEST(Validate, NamesTheBadField) {
  const auto fault = [](auto change, Op op = Op::kAllReduce) {
    Submission s = good(op);
    change(s);
    return validate(s, kLimits);
  };
  EXPECT_EQ(fault([](Submission& s) { s.generation = 8; }), Fault::kGeneration);
  EXPECT_EQ(fault([](Submission& s) { s.communicator = 1; }), Fault::kCommunicator);
  EXPECT_EQ(fault([](Submission& s) { s.op = 0; }), Fault::kOp);
  EXPECT_EQ(fault([](Submission& s) { s.op = kOpCount; }), Fault::kOp);
  EXPECT_EQ(fault([](Submission& s) { s.dtype = kDTypeCount; }), Fault::kDType);
  EXPECT_EQ(fault([](Submission& s) { s.reduce_op = kReduceOpCount; }), Fault::kReduceOp);
  EXPECT_EQ(fault([](Submission& s) { s.algorithm = kAlgorithmCount; }), Fault::kAlgorithm);
  EXPECT_EQ(fault([](Submission& s) { s.flags = 1u << 31; }), Fault::kFlags);
  EXPECT_EQ(fault([](Submission& s) { s.root = 4; }, Op::kBroadcast), Fault::kRoot);
  EXPECT_EQ(fault([](Submission& s) { s.count = UINT64_MAX; }), Fault::kCount);
  EXPECT_EQ(fault([](Submission& s) { s.count = UINT64_MAX / 4; }), Fault::kRange);
  EXPECT_EQ(fault([](Submission& s) { s.send_offset = UINT64_MAX - 3; }), Fault::kRange);
  EXPECT_EQ(fault([](Submission& s) { s.recv_offset = (1 << 20) - 3996; }), Fault::kRange);
  EXPECT_EQ(fault([](Submission& s) { s.send_offset = 2; }), Fault::kAlignment);
  EXPECT_EQ(fault([](Submission& s) { s.recv_offset = 4; }), Fault::kOverlap);
  EXPECT_EQ(fault([](Submission& s) { s.recv_offset = 0; }), Fault::kNone) << "in place";
  EXPECT_EQ(fault([](Submission& s) { s.flags = kFlagInline; }), Fault::kCount)
      << "4000 bytes do not travel inline";
}

TEST(Validate, InPlaceOfPartedOperationsIsTheRanksOwnPart) {
  Submission gather = good(Op::kAllGather);
  gather.recv_offset = 0;
  gather.send_offset = 1 * 4000;  // rank 1
  EXPECT_EQ(validate(gather, kLimits), Fault::kNone);
  gather.send_offset = 2 * 4000;
  EXPECT_EQ(validate(gather, kLimits), Fault::kOverlap);
  Submission scatter = good(Op::kReduceScatter);
  scatter.recv_offset = 4000;
  EXPECT_EQ(validate(scatter, kLimits), Fault::kNone);
  Submission exchange = good(Op::kAllToAll);
  exchange.recv_offset = 0;
  EXPECT_EQ(validate(exchange, kLimits), Fault::kOverlap);
}

TEST(Validate, AMillionRandomDescriptorsNeverPassOutOfBounds) {
  std::mt19937_64 rng(20261130);
  for (int i = 0; i < 1'000'000; ++i) {
    Submission s = good(static_cast<Op>(rng() % 12));
    const auto wild = [&](uint64_t small) { return rng() % 3 == 0 ? rng() : rng() % small; };
    s.count = wild(1 << 18);
    s.send_offset = wild(1 << 21);
    s.recv_offset = wild(1 << 21);
    s.dtype = static_cast<uint8_t>(rng() % 14);
    s.root = static_cast<uint32_t>(rng() % 6);
    if (validate(s, kLimits) != Fault::kNone || static_cast<Op>(s.op) == Op::kBarrier) continue;
    const auto bytes =
        static_cast<unsigned __int128>(s.count) * dtype_size(static_cast<DType>(s.dtype));
    ASSERT_LE(bytes, kLimits.arena_bytes);
    ASSERT_LE(s.send_offset, kLimits.arena_bytes);
    ASSERT_LE(s.recv_offset, kLimits.arena_bytes);
    ASSERT_LT(s.root, op_has_root(static_cast<Op>(s.op)) ? 4u : 6u);
  }
}

struct Pages {
  std::unique_ptr<SubmitPage> submit = std::make_unique<SubmitPage>();
  std::unique_ptr<StatusPage> status = std::make_unique<StatusPage>();
  std::unique_ptr<RunBoard> board = std::make_unique<RunBoard>();
};

TEST(SubmissionReader, PopOnAnEmptyRingReturnsNothing) {
  Pages pages;
  SubmissionReader sut(pages.submit.get());
  Submission s;
  EXPECT_FALSE(sut.pop(s));
}

TEST(SubmissionReader, IgnoresForgedStamps) {
  Pages pages;
  SubmissionReader sut(pages.submit.get());
  Submission s;
  for (const uint64_t stamp : {uint64_t{2}, uint64_t{257}, uint64_t{1} << 63, UINT64_MAX}) {
    pages.submit->entries[0].stamp.store(stamp);
    EXPECT_FALSE(sut.pop(s)) << stamp;
  }
}

TEST(Submitter, TicketsGoRoundAndComeBackWhenReleased) {
  Pages pages;
  Submitter sut(*pages.submit, *pages.status, *pages.board, 7);
  SubmissionReader reader(pages.submit.get());
  CompletionWriter writer(pages.status.get());
  std::atomic<uint64_t> sequence{0};
  Submission s;
  Outcome outcome;
  for (uint64_t i = 0; i < 3 * kQueueDepth; ++i) {
    const auto ticket = sut.submit({.op = Op::kBarrier}, sequence);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(*ticket, i);
    EXPECT_FALSE(sut.poll(*ticket, outcome));
    ASSERT_TRUE(reader.pop(s));
    EXPECT_EQ(s.sequence, i);
    writer.publish(s.ticket, {.sequence = i});
    ASSERT_TRUE(sut.poll(*ticket, outcome));
    EXPECT_EQ(outcome.sequence, i);
    sut.release(*ticket);
  }
}

TEST(Submitter, ErrorTextBelongsToItsTicket) {
  Pages pages;
  Submitter sut(*pages.submit, *pages.status, *pages.board, 7);
  CompletionWriter writer(pages.status.get());
  std::atomic<uint64_t> sequence{0};
  Outcome outcome;
  for (int i = 0; i < 40; ++i) {
    const auto ticket = sut.submit({.op = Op::kBarrier}, sequence);
    const std::string text = "failure " + std::to_string(i);
    writer.publish(*ticket, {.code = 4, .error_text = text});
    ASSERT_TRUE(sut.poll(*ticket, outcome));
    EXPECT_EQ(outcome.error_text.data(), text);
  }
  // The first one's text slot was reused since: no text rather than another ticket's.
  ASSERT_TRUE(sut.poll(0, outcome));
  EXPECT_EQ(outcome.error_text[0], '\0');
}

TEST(Segment, StatusPageCannotBeMappedForWriting) {
  const auto segment = create_segment(
      {.kind = SegmentKind::kStatus, .size_bytes = sizeof(StatusPage), .generation = 3});
  ASSERT_TRUE(segment) << segment.error().message;
  EXPECT_FALSE(Mapping::map(segment->fd.get(), sizeof(StatusPage), Mapping::Access::kReadWrite));
  const auto received = map_received(
      segment->fd.get(),
      {.kind = SegmentKind::kStatus, .size_bytes = sizeof(StatusPage), .generation = 3});
  EXPECT_TRUE(received);
  const auto other = map_received(
      segment->fd.get(),
      {.kind = SegmentKind::kStatus, .size_bytes = sizeof(StatusPage), .generation = 4});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("generation 3"), std::string::npos) << other.error().message;
}

TEST(RunName, OnlyWhatMayBecomeADirectory) {
  EXPECT_TRUE(valid_run_name("resnet20-fashion_mnist.1"));
  for (const char* name : {"", ".", "..", "a/b", "A", "a b", "\xc3\xa4"})
    EXPECT_FALSE(valid_run_name(name)) << name;
  EXPECT_FALSE(valid_run_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace npu::shm
