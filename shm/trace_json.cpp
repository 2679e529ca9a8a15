#include "shm/trace_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/trace_summary.hpp"

namespace npu::shm {
namespace {

using Json = nlohmann::ordered_json;

double to_us(uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

Json duration_us(const std::optional<uint64_t>& ns) { return ns ? Json(to_us(*ns)) : Json(); }

Json number_or_null(int32_t value) { return value >= 0 ? Json(value) : Json(); }

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

const char* name_of(const TraceRecord& r) { return op_name(static_cast<Op>(r.op)); }

Json dtype_json(const TraceRecord& r) {
  return r.dtype == kTraceNone ? Json() : Json(dtype_name(static_cast<DType>(r.dtype)));
}

Json reduce_op_json(const TraceRecord& r) {
  return r.reduce_op == kTraceNone ? Json()
                                   : Json(reduce_op_name(static_cast<ReduceOp>(r.reduce_op)));
}

Json error_json(const TraceRecord& r) {
  return r.code == 0 ? Json() : Json(code_name(static_cast<Code>(r.code)));
}

// Invalid UTF-8 cannot stand in JSON and must not end in an exception.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Times since the earliest one shown, so that numbers are short and two hosts' are not compared.
class TimeLine {
 public:
  explicit TimeLine(std::span<const TraceRecord> records) : zero_ns_(earliest_ns(records)) {}
  [[nodiscard]] double us(uint64_t ns) const { return to_us(ns - zero_ns_); }
  [[nodiscard]] Json json(uint64_t ns) const { return ns == 0 ? Json() : Json(us(ns)); }
  [[nodiscard]] Json json(const std::optional<uint64_t>& ns) const { return json(ns.value_or(0)); }

 private:
  uint64_t zero_ns_;
};

Json record_json(const TraceRecord& r, const TimeLine& line, uint64_t now_ns) {
  const TraceSummary s = summarize(r, now_ns);
  Json ranks = Json::array();
  for (uint32_t rank = 0; rank < kMaxDevices; ++rank) {
    if (((r.members >> rank) & 1) == 0) continue;
    ranks.push_back({{"rank", rank}, {"arrival_us", line.json(r.arrival_ns[rank])}});
  }
  return {{"seq", r.sequence},
          {"communicator", r.communicator},
          {"op", name_of(r)},
          {"dtype", dtype_json(r)},
          {"redop", reduce_op_json(r)},
          {"count", r.count},
          {"bytes", r.bytes},
          {"algo", algorithm_name(static_cast<Algorithm>(r.algorithm))},
          {"state", trace_state_name(static_cast<TraceState>(r.state))},
          {"error", error_json(r)},
          {"culprit", number_or_null(r.culprit)},
          {"root", number_or_null(r.root_or_peer)},
          {"ranks", std::move(ranks)},
          {"first_arrival_us", line.json(s.first_ns)},
          {"last_arrival_us", line.json(s.last_ns)},
          {"straggler", s.straggler ? Json(*s.straggler) : Json()},
          {"start_us", line.json(r.start_ns)},
          {"end_us", line.json(r.end_ns)},
          {"wait_us", duration_us(s.wait_ns)},
          {"run_us", duration_us(s.run_ns)}};
}

/// The Trace Event form of one run. Source: "Trace Event Format", phases X (complete) and M
/// (metadata); ts and dur are microseconds.
class ChromeTrace {
 public:
  ChromeTrace(const TraceHead& head, std::span<const TraceRecord> records)
      : generation_(head.generation),
        line_(records),
        horizon_ns_(std::max(head.now_ns, latest_ns(records))) {
    name("process_name", 0, fmt::format("run '{}' generation {}", head.run, head.generation));
    uint32_t members = 0;
    for (const TraceRecord& r : records) members |= r.members;
    for (uint32_t rank = 0; rank < kMaxDevices; ++rank) {
      if (((members >> rank) & 1) != 0) name("thread_name", rank, fmt::format("rank {}", rank));
    }
    for (const TraceRecord& r : records) add(r);
  }

  [[nodiscard]] Json take() {
    return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}};
  }

 private:
  void name(const char* what, uint32_t rank, const std::string& text) {
    events_.push_back({{"name", what},
                       {"ph", "M"},
                       {"pid", generation_},
                       {"tid", rank},
                       {"args", {{"name", text}}}});
  }

  void slice(const char* what, const TraceRecord& r, uint32_t rank, uint64_t from, uint64_t to,
             const Json& args) {
    if (from == 0 || to < from) return;
    const TraceState state = static_cast<TraceState>(r.state);
    events_.push_back({{"name", what},
                       {"cat", state == TraceState::kFailed ? "failed" : "collective"},
                       {"ph", "X"},
                       {"ts", line_.us(from)},
                       {"dur", to_us(to - from)},
                       {"pid", generation_},
                       {"tid", rank},
                       {"args", args}});
  }

  void add(const TraceRecord& r) {
    const TraceSummary s = summarize(r, horizon_ns_);
    const Json args = {{"seq", r.sequence},
                       {"communicator", r.communicator},
                       {"op", name_of(r)},
                       {"dtype", dtype_json(r)},
                       {"bytes", r.bytes},
                       {"algo", algorithm_name(static_cast<Algorithm>(r.algorithm))},
                       {"state", trace_state_name(static_cast<TraceState>(r.state))},
                       {"error", error_json(r)},
                       {"straggler", s.straggler ? Json(*s.straggler) : Json()}};
    const uint64_t end = r.end_ns != 0 ? r.end_ns : horizon_ns_;
    for (uint32_t rank = 0; rank < kMaxDevices; ++rank) {
      if (((r.members >> rank) & 1) == 0) continue;
      slice("wait", r, rank, r.arrival_ns[rank], r.start_ns != 0 ? r.start_ns : end, args);
      slice(name_of(r), r, rank, r.start_ns, end, args);
    }
  }

  uint64_t generation_;
  TimeLine line_;
  uint64_t horizon_ns_;
  Json events_ = Json::array();
};

}  // namespace

std::string trace_json(const TraceHead& head, std::span<const TraceRecord> records) {
  const TimeLine line(records);
  Json list = Json::array();
  for (const TraceRecord& r : records) list.push_back(record_json(r, line, head.now_ns));
  return dump({{"schema", 1},
               {"run", head.run},
               {"generation", head.generation},
               {"state", head.state},
               {"error", text_or_null(head.error)},
               {"opened", head.opened},
               {"skipped", head.skipped},
               {"records", std::move(list)}});
}

std::string trace_chrome(const TraceHead& head, std::span<const TraceRecord> records) {
  return dump(ChromeTrace(head, records).take());
}

}  // namespace npu::shm
