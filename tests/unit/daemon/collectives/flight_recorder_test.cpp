// The writing and the reading end of a flight recorder, alone and against each other.
#include "daemon/collectives/flight_recorder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_data.hpp"
#include "shm/trace_reader.hpp"

namespace npu::daemon {
namespace {

using shm::read_trace;
using shm::TraceRecord;
using shm::TraceRing;
using shm::TraceSnapshot;
using shm::TraceState;

FlightRecorder recorder() {
  auto made = FlightRecorder::create(3, 8);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

/// What only somebody with the daemon's own mapping could do.
TraceRing& forge(const FlightRecorder& recorder) { return const_cast<TraceRing&>(recorder.ring()); }

/// Every field follows from `i`, so that a mix of two records is seen.
TraceRecord record_of(uint64_t i) {
  TraceRecord r;
  r.sequence = i;
  r.count = i + 1;
  r.bytes = i + 2;
  for (uint32_t rank = 0; rank < shm::kMaxDevices; ++rank) r.arrival_ns[rank] = i + 3 + rank;
  r.start_ns = i + 20;
  r.end_ns = i + 30;
  r.communicator = static_cast<uint32_t>(i);
  r.members = 0xff;
  r.root_or_peer = static_cast<int32_t>(i % 8);
  r.op = static_cast<uint8_t>(shm::Op::kAllReduce);
  r.dtype = static_cast<uint8_t>(i % kDTypeCount);
  r.reduce_op = static_cast<uint8_t>(i % kReduceOpCount);
  r.algorithm = static_cast<uint8_t>(shm::Algorithm::kDirect);
  r.state = static_cast<uint8_t>(TraceState::kDone);
  return r;
}

void expect_record(const TraceRecord& got, uint64_t i) {
  const TraceRecord want = record_of(i);
  EXPECT_EQ(std::memcmp(&got, &want, sizeof(want)), 0)
      << "record " << i << ", got " << got.sequence;
}

void record(FlightRecorder& sut, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; ++i) sut.write(sut.open(), record_of(i));
}

TEST(FlightRecorder, IsEmptyAtFirst) {
  const FlightRecorder sut = recorder();
  const TraceSnapshot got = read_trace(sut.ring());
  EXPECT_EQ(got.opened, 0u);
  EXPECT_TRUE(got.records.empty());
}

TEST(FlightRecorder, GivesBackWhatWasWritten) {
  FlightRecorder sut = recorder();
  record(sut, 0, 3);
  const TraceSnapshot got = read_trace(sut.ring());
  ASSERT_EQ(got.records.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) expect_record(got.records[i], i);
}

TEST(FlightRecorder, LastWriteOfARecordCounts) {
  FlightRecorder sut = recorder();
  const uint64_t index = sut.open();
  TraceRecord r = record_of(0);
  r.state = static_cast<uint8_t>(TraceState::kWaiting);
  sut.write(index, r);
  EXPECT_EQ(read_trace(sut.ring()).records.at(0).state, r.state);
  r.state = static_cast<uint8_t>(TraceState::kRunning);
  sut.write(index, r);
  const TraceSnapshot got = read_trace(sut.ring());
  ASSERT_EQ(got.records.size(), 1u);
  EXPECT_EQ(got.records[0].state, r.state);
}

TEST(FlightRecorder, OpenedButUnwrittenRecordIsSkipped) {
  FlightRecorder sut = recorder();
  record(sut, 0, 1);
  EXPECT_EQ(sut.open(), 1u);
  const TraceSnapshot got = read_trace(sut.ring());
  EXPECT_EQ(got.records.size(), 1u);
  EXPECT_EQ(got.opened, 2u);
  EXPECT_EQ(got.torn, 1u);
}

TEST(FlightRecorder, KeepsTheLastOnesOldestFirst) {
  FlightRecorder sut = recorder();
  constexpr uint64_t kTotal = 3 * shm::kTraceSlots / 2;
  record(sut, 0, kTotal);
  const TraceSnapshot got = read_trace(sut.ring());
  EXPECT_EQ(got.opened, kTotal);
  ASSERT_EQ(got.records.size(), shm::kTraceSlots);
  for (uint64_t i = 0; i < shm::kTraceSlots; ++i) {
    expect_record(got.records[i], kTotal - shm::kTraceSlots + i);
  }
}

TEST(FlightRecorder, LimitTakesTheNewest) {
  FlightRecorder sut = recorder();
  record(sut, 0, 100);
  const TraceSnapshot got = read_trace(sut.ring(), 2);
  ASSERT_EQ(got.records.size(), 2u);
  expect_record(got.records[0], 98);
  expect_record(got.records[1], 99);
}

TEST(FlightRecorder, RecordThatWasPushedOutDoesNotComeBack) {
  FlightRecorder sut = recorder();
  record(sut, 0, shm::kTraceSlots + 1);  // slot 0 holds record 4096 now
  sut.write(0, record_of(0));
  const TraceSnapshot got = read_trace(sut.ring());
  ASSERT_EQ(got.records.size(), shm::kTraceSlots);
  expect_record(got.records.back(), shm::kTraceSlots);
}

TEST(FlightRecorder, TornRecordIsSkippedAndTheOthersAreNot) {
  FlightRecorder sut = recorder();
  record(sut, 0, 3);
  forge(sut).slots[1].version.fetch_add(1);  // as left by a writer that is at it
  const TraceSnapshot got = read_trace(sut.ring());
  EXPECT_EQ(got.torn, 1u);
  ASSERT_EQ(got.records.size(), 2u);
  expect_record(got.records[0], 0);
  expect_record(got.records[1], 2);
}

TEST(FlightRecorder, RequestOfAClientThatDoesNotExistIsRecordedAsNone) {
  FlightRecorder sut = recorder();
  TraceRecord r = record_of(0);
  r.op = 200;
  r.dtype = 201;
  r.reduce_op = 202;
  sut.write(sut.open(), r);
  const TraceSnapshot got = read_trace(sut.ring());
  ASSERT_EQ(got.records.size(), 1u);
  EXPECT_EQ(got.records[0].op, static_cast<uint8_t>(shm::Op::kNone));
  EXPECT_EQ(got.records[0].dtype, shm::kTraceNone);
  EXPECT_EQ(got.records[0].reduce_op, shm::kTraceNone);
}

TEST(FlightRecorder, TypesAreRecordedWhereTheyMeanSomething) {
  FlightRecorder sut = recorder();
  TraceRecord r = record_of(5);
  r.op = static_cast<uint8_t>(shm::Op::kBarrier);
  sut.write(sut.open(), r);
  r.op = static_cast<uint8_t>(shm::Op::kBroadcast);
  sut.write(sut.open(), r);
  const TraceSnapshot got = read_trace(sut.ring());
  ASSERT_EQ(got.records.size(), 2u);
  EXPECT_EQ(got.records[0].dtype, shm::kTraceNone);
  EXPECT_EQ(got.records[1].dtype, r.dtype);
  EXPECT_EQ(got.records[1].reduce_op, shm::kTraceNone);
}

TEST(FlightRecorder, SegmentCannotBeMappedForWriting) {
  const FlightRecorder sut = recorder();
  using shm::Mapping;
  EXPECT_FALSE(Mapping::map(sut.fd(), sizeof(TraceRing), Mapping::Access::kReadWrite));
  shm::SegmentSpec expected{.kind = shm::SegmentKind::kTrace,
                            .size_bytes = sizeof(TraceRing),
                            .generation = 3,
                            .world = 8};
  EXPECT_TRUE(shm::map_received(sut.fd(), expected));
  expected.generation = 4;
  EXPECT_FALSE(shm::map_received(sut.fd(), expected));
}

TEST(TraceReader, RefusesValuesThatNobodyWrites) {
  const std::vector<std::pair<const char*, std::function<void(TraceRecord&)>>> changes = {
      {"op", [](TraceRecord& r) { r.op = shm::kOpCount; }},
      {"dtype", [](TraceRecord& r) { r.dtype = kDTypeCount; }},
      {"reduce op", [](TraceRecord& r) { r.reduce_op = kReduceOpCount; }},
      {"algorithm", [](TraceRecord& r) { r.algorithm = shm::kAlgorithmCount; }},
      {"state 0", [](TraceRecord& r) { r.state = 0; }},
      {"state 5", [](TraceRecord& r) { r.state = 5; }},
      {"code", [](TraceRecord& r) { r.code = static_cast<uint8_t>(Code::kInternal) + 1; }},
      {"no members", [](TraceRecord& r) { r.members = 0; }},
      {"members", [](TraceRecord& r) { r.members = 0x100; }},
      {"root", [](TraceRecord& r) { r.root_or_peer = shm::kMaxDevices; }},
      {"culprit", [](TraceRecord& r) { r.culprit = -2; }},
  };
  EXPECT_TRUE(shm::valid_trace_record(record_of(1)));
  for (const auto& [what, change] : changes) {
    TraceRecord r = record_of(1);
    change(r);
    EXPECT_FALSE(shm::valid_trace_record(r)) << what;
  }
}

TEST(TraceReader, SkipsAndCountsABadRecord) {
  FlightRecorder sut = recorder();
  record(sut, 0, 3);
  TraceRecord bad = record_of(1);
  bad.algorithm = 77;
  uint64_t words[shm::kTraceWords];
  std::memcpy(words, &bad, sizeof(bad));
  for (size_t i = 0; i < shm::kTraceWords; ++i) forge(sut).slots[1].words[i].store(words[i]);
  const TraceSnapshot got = read_trace(sut.ring());
  EXPECT_EQ(got.bad, 1u);
  ASSERT_EQ(got.records.size(), 2u);
  expect_record(got.records[1], 2);
}

TEST(TraceReader, AnyCountOfRecordsIsSurvived) {
  FlightRecorder sut = recorder();
  record(sut, 0, 10);
  for (const uint64_t opened : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63}) {
    forge(sut).count.opened.store(opened);
    const TraceSnapshot got = read_trace(sut.ring());
    EXPECT_TRUE(got.records.empty());
    EXPECT_EQ(got.torn, shm::kTraceSlots);
  }
}

TEST(TraceReader, NeverSeesAMixOfTwoRecords) {
  FlightRecorder sut = recorder();
  constexpr uint64_t kTotal = 40 * uint64_t{shm::kTraceSlots};
  std::thread writer([&] { record(sut, 0, kTotal); });
  uint64_t seen = 0, last = 0;
  do {
    const TraceSnapshot got = read_trace(sut.ring());
    EXPECT_EQ(got.bad, 0u);
    for (const TraceRecord& r : got.records) expect_record(r, r.sequence);
    EXPECT_TRUE(std::ranges::is_sorted(got.records, {}, &TraceRecord::sequence));
    seen += got.records.size();
    last = got.opened;
  } while (last < kTotal && !testing::Test::HasFailure());
  writer.join();
  std::printf("[   SEEN   ] %lu records while they were written\n", seen);
}

}  // namespace
}  // namespace npu::daemon
