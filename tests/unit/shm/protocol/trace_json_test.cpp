// The two forms of a trace for programs: one pinned byte by byte, the other parsed back.
#include "shm/trace_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_data.hpp"

namespace npu::shm {
namespace {

using nlohmann::json;

TraceRecord done() {
  TraceRecord r;
  r.sequence = 7;
  r.count = 1000;
  r.bytes = 8000;
  r.arrival_ns[0] = 1'000'000;
  r.arrival_ns[1] = 1'002'500;
  r.start_ns = 1'003'000;
  r.end_ns = 1'010'125;
  r.members = 0b11;
  r.op = static_cast<uint8_t>(Op::kAllReduce);
  r.dtype = static_cast<uint8_t>(DType::kFloat32);
  r.reduce_op = static_cast<uint8_t>(ReduceOp::kMean);
  r.algorithm = static_cast<uint8_t>(Algorithm::kDirect);
  r.state = static_cast<uint8_t>(TraceState::kDone);
  return r;
}

TraceRecord failed() {
  TraceRecord r;
  r.sequence = 8;
  r.count = 4;
  r.arrival_ns[0] = 1'020'000;
  r.end_ns = 1'120'000;
  r.members = 0b11;
  r.root_or_peer = 0;
  r.culprit = 1;
  r.op = static_cast<uint8_t>(Op::kBroadcast);
  r.dtype = static_cast<uint8_t>(DType::kInt8);
  r.state = static_cast<uint8_t>(TraceState::kFailed);
  r.code = static_cast<uint8_t>(Code::kAborted);
  return r;
}

TraceHead head() {
  return {.run = "test",
          .generation = 3,
          .state = "aborted",
          .error = "rank 1 (pid 42) died",
          .opened = 9,
          .skipped = 1};
}

TEST(TraceJson, IsPinned) {
  const std::vector<TraceRecord> records = {done(), failed()};
  EXPECT_EQ(trace_json(head(), records),
            R"({"schema":1,"run":"test","generation":3,"state":"aborted",)"
            R"("error":"rank 1 (pid 42) died","opened":9,"skipped":1,"records":[)"
            R"({"seq":7,"communicator":0,"op":"all-reduce","dtype":"fp32","redop":"mean",)"
            R"("count":1000,"bytes":8000,"algo":"direct","state":"done","error":null,)"
            R"("culprit":null,"root":null,"ranks":[{"rank":0,"arrival_us":0.0},)"
            R"({"rank":1,"arrival_us":2.5}],"first_arrival_us":0.0,"last_arrival_us":2.5,)"
            R"("straggler":1,"start_us":3.0,"end_us":10.125,"wait_us":3.0,"run_us":7.125},)"
            R"({"seq":8,"communicator":0,"op":"broadcast","dtype":"int8","redop":null,)"
            R"("count":4,"bytes":0,"algo":"auto","state":"failed","error":"aborted",)"
            R"("culprit":1,"root":0,"ranks":[{"rank":0,"arrival_us":20.0},)"
            R"({"rank":1,"arrival_us":null}],"first_arrival_us":20.0,"last_arrival_us":20.0,)"
            R"("straggler":1,"start_us":null,"end_us":120.0,"wait_us":100.0,"run_us":null}]})"
            "\n");
}

TEST(TraceJson, OfNothingIsAnEmptyList) {
  TraceHead empty = head();
  empty.error.clear();
  const json got = json::parse(trace_json(empty, {}));
  EXPECT_TRUE(got["error"].is_null());
  EXPECT_EQ(got["records"], json::array());
}

TEST(TraceJson, TextThatIsNotUtf8DoesNotBreakIt) {
  TraceHead odd = head();
  odd.error = "bad \xff byte";
  EXPECT_TRUE(json::accept(trace_json(odd, {})));
}

/// Slices of one rank in the order they appear.
std::vector<json> slices_of(const json& trace, int rank) {
  std::vector<json> out;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == rank) out.push_back(event);
  }
  return out;
}

TEST(ChromeTrace, ShowsAWaitAndThenTheOperationForEachRank) {
  const std::vector<TraceRecord> records = {done()};
  const json got = json::parse(trace_chrome(head(), records));
  const auto late = slices_of(got, 1);
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0]["name"], "wait");
  EXPECT_EQ(late[0]["ts"], 2.5);
  EXPECT_EQ(late[0]["dur"], 0.5);
  EXPECT_EQ(late[1]["name"], "all-reduce");
  EXPECT_EQ(late[1]["ts"], 3.0);
  EXPECT_EQ(late[1]["dur"], 7.125);
  EXPECT_EQ(late[1]["pid"], 3);
  EXPECT_EQ(late[1]["args"]["seq"], 7);
  EXPECT_EQ(slices_of(got, 0).size(), 2u);
}

TEST(ChromeTrace, NamesTheRunAndItsRanks) {
  const std::vector<TraceRecord> records = {done()};
  const json got = json::parse(trace_chrome(head(), records));
  std::vector<std::string> names;
  for (const json& event : got["traceEvents"]) {
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"run 'test' generation 3", "rank 0", "rank 1"}));
}

TEST(ChromeTrace, FailedWaitLastsToItsEndAndTheMissingRankHasNone) {
  const std::vector<TraceRecord> records = {done(), failed()};
  const json got = json::parse(trace_chrome(head(), records));
  const auto waited = slices_of(got, 0);
  ASSERT_EQ(waited.size(), 3u);
  EXPECT_EQ(waited[2]["cat"], "failed");
  EXPECT_EQ(waited[2]["dur"], 100.0);
  EXPECT_EQ(waited[2]["args"]["error"], "aborted");
  EXPECT_EQ(slices_of(got, 1).size(), 2u);
}

TEST(ChromeTrace, WaitThatGoesOnReachesToNow) {
  TraceRecord r = failed();
  r.end_ns = 0;
  r.state = static_cast<uint8_t>(TraceState::kWaiting);
  TraceHead now = head();
  now.now_ns = 2'020'000;
  const std::vector<TraceRecord> records = {r};
  const json got = json::parse(trace_chrome(now, records));
  const auto waits = slices_of(got, 0);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0]["dur"], 1000.0);
}

}  // namespace
}  // namespace npu::shm
