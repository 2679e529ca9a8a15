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

constexpr SubmissionLimits kLimits{.generation = 7, .arena_bytes = 1 << 20, .size = 4, .rank = 1};

const VectorArgs kVectors{.send_counts = {1000, 1000, 1000, 1000},
                          .send_displs = {0, 1000, 2000, 3000},
                          .recv_counts = {1000, 1000, 1000, 1000},
                          .recv_displs = {0, 1000, 2000, 3000}};

Fault validate(const Submission& s, const SubmissionLimits& limits) {
  return shm::validate(s, kVectors, limits);
}

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
  EXPECT_EQ(layout_hash(), 8916334438241199327u);
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
  EXPECT_EQ(fault([](Submission& s) { s.stream = kMaxStreams; }), Fault::kStream);
  EXPECT_EQ(fault([](Submission& s) { s.root = 4; }, Op::kSend), Fault::kPeer);
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

TEST(Validate, VectorFormsKeepEveryPartInTheArenaAndReceivedPartsApart) {
  const auto fault = [](Op op, auto change) {
    Submission s = good(op);
    VectorArgs v = kVectors;
    change(s, v);
    return shm::validate(s, v, kLimits);
  };
  for (const Op op : {Op::kAllGatherV, Op::kReduceScatterV, Op::kAllToAllV}) {
    EXPECT_EQ(fault(op, [](Submission&, VectorArgs&) {}), Fault::kNone) << op_name(op);
    const bool sends = op == Op::kReduceScatterV;
    const auto displ = [&](uint64_t at) {
      return fault(
          op, [&](Submission&, VectorArgs& v) { (sends ? v.send_displs : v.recv_displs)[2] = at; });
    };
    EXPECT_EQ(displ(1 << 18), Fault::kRange) << op_name(op);
    EXPECT_EQ(displ(UINT64_MAX / 4), Fault::kRange) << op_name(op);
    EXPECT_EQ(displ(UINT64_MAX / 4 + 1), Fault::kCount) << op_name(op);
    EXPECT_EQ(displ(1999), sends ? Fault::kNone : Fault::kOverlap) << op_name(op);
  }
  EXPECT_EQ(fault(Op::kAllGatherV, [](Submission& s, VectorArgs&) { s.count = 999; }),
            Fault::kCount);
  EXPECT_EQ(fault(Op::kAllGatherV,
                  [](Submission& s, VectorArgs&) { s.send_offset = s.recv_offset + 4000; }),
            Fault::kNone)
      << "in place: the own part of rank 1";
  EXPECT_EQ(fault(Op::kAllGatherV,
                  [](Submission& s, VectorArgs&) { s.send_offset = s.recv_offset + 8000; }),
            Fault::kOverlap);
  EXPECT_EQ(
      fault(Op::kAllToAllV, [](Submission& s, VectorArgs&) { s.send_offset = s.recv_offset; }),
      Fault::kOverlap);
}

TEST(Validate, AMillionRandomDescriptorsNeverPassOutOfBounds) {
  std::mt19937_64 rng(20261130);
  for (int i = 0; i < 1'000'000; ++i) {
    Submission s = good(static_cast<Op>(rng() % (kOpCount + 2)));
    const auto wild = [&](uint64_t small) { return rng() % 3 == 0 ? rng() : rng() % small; };
    s.count = wild(1 << 18);
    s.send_offset = wild(1 << 21);
    s.recv_offset = wild(1 << 21);
    s.dtype = static_cast<uint8_t>(rng() % 14);
    s.root = static_cast<uint32_t>(rng() % 6);
    if (validate(s, kLimits) != Fault::kNone || op_moves_nothing(static_cast<Op>(s.op))) continue;
    const auto bytes =
        static_cast<unsigned __int128>(s.count) * dtype_size(static_cast<DType>(s.dtype));
    ASSERT_LE(s.send_offset, kLimits.arena_bytes);
    ASSERT_LE(s.recv_offset, kLimits.arena_bytes);
    ASSERT_LT(s.root, op_has_root(static_cast<Op>(s.op)) ? 4u : 6u);
    ASSERT_TRUE(op_has_vectors(static_cast<Op>(s.op)) || bytes <= kLimits.arena_bytes);
  }
}

struct Pages {
  std::unique_ptr<SubmitPage> submit = std::make_unique<SubmitPage>();
  std::unique_ptr<StatusPage> status = std::make_unique<StatusPage>();
  std::unique_ptr<RunBoard> board = std::make_unique<RunBoard>();
  std::unique_ptr<RunHints> hints = std::make_unique<RunHints>();
  [[nodiscard]] std::unique_ptr<Submitter> submitter() {
    return std::make_unique<Submitter>(*submit, *status, *board, *hints, 7);
  }
};

std::optional<uint64_t> submit_barrier(Submitter& submitter) {
  Request request;
  request.op = Op::kBarrier;
  return submitter.submit({&request, 1}, {0, 0, 1});
}

TEST(SubmissionReader, PopOnAnEmptyRingReturnsNothing) {
  Pages pages;
  SubmissionReader sut(pages.submit.get());
  Submission s;
  VectorArgs vectors;
  EXPECT_FALSE(sut.pop(s, vectors));
}

TEST(SubmissionReader, IgnoresForgedStamps) {
  Pages pages;
  SubmissionReader sut(pages.submit.get());
  Submission s;
  VectorArgs vectors;
  for (const uint64_t stamp : {uint64_t{2}, uint64_t{257}, uint64_t{1} << 63, UINT64_MAX}) {
    pages.submit->entries[0].stamp.store(stamp);
    EXPECT_FALSE(sut.pop(s, vectors)) << stamp;
  }
}

TEST(Submitter, TicketsGoRoundAndComeBackWhenReleased) {
  Pages pages;
  const auto sut = pages.submitter();
  SubmissionReader reader(pages.submit.get());
  CompletionWriter writer(pages.status.get());
  Submission s;
  VectorArgs vectors;
  Outcome outcome;
  for (uint64_t i = 0; i < 3 * kQueueDepth; ++i) {
    const auto ticket = submit_barrier(*sut);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(*ticket, i);
    EXPECT_FALSE(sut->poll(*ticket, outcome));
    ASSERT_TRUE(reader.pop(s, vectors));
    EXPECT_EQ(s.ticket, i);
    writer.publish(s.ticket, {.sequence = i});
    ASSERT_TRUE(sut->poll(*ticket, outcome));
    EXPECT_EQ(outcome.sequence, i);
    sut->release(*ticket);
  }
}

TEST(Submitter, ErrorTextBelongsToItsTicket) {
  Pages pages;
  const auto sut = pages.submitter();
  CompletionWriter writer(pages.status.get());
  Outcome outcome;
  for (int i = 0; i < 40; ++i) {
    const auto ticket = submit_barrier(*sut);
    const std::string text = "failure " + std::to_string(i);
    writer.publish(*ticket, {.code = 4, .error_text = text});
    ASSERT_TRUE(sut->poll(*ticket, outcome));
    EXPECT_EQ(outcome.error_text.data(), text);
  }
  // The first one's text slot was reused since: no text rather than another ticket's.
  ASSERT_TRUE(sut->poll(0, outcome));
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
