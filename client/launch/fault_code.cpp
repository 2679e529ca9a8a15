#include "client/launch/fault_code.hpp"

#include <fmt/format.h>

#include <array>

namespace npu::client {
namespace {

struct Situation {
  std::string_view code;   // code_name(), empty: any
  int exit_code;           // 0: any
  std::string_view words;  // part of the message, empty: any
  FaultCode fault;
};

constexpr FaultCode kEnvironment = {"EI0001", "a variable of the environment is wrong",
                                    "correct or unset it"};
constexpr FaultCode kWaited = {
    "EI0002", "ranks waited for one that did not come",
    "see its log above; `npu ps --trace RUN` shows what each rank did last; "
    "collectives.timeout or HCCL_EXEC_TIMEOUT if it is only slow"};
constexpr FaultCode kLost = {"EI0002", "a rank ended while the others needed it",
                             "see its log above; launch again, the run resumes from its newest "
                             "checkpoint"};
constexpr FaultCode kArgument = {"EI0003", "an argument of a collective is wrong",
                                 "correct the call that the message names"};
constexpr FaultCode kTable = {"EI0004", "the rank table cannot be used",
                              "correct the file that RANK_TABLE_FILE names"};
constexpr FaultCode kDiffer = {"EI0005", "ranks passed different arguments",
                               "make all ranks call the same operations in the same order"};
constexpr FaultCode kJoin = {"EI0006", "ranks did not come in time to join the run",
                             "see why they did not start; HCCL_CONNECT_TIMEOUT waits longer"};
constexpr FaultCode kResource = {"EI0007", "a resource is used up",
                                 "free what the message names, or raise its limit"};
constexpr FaultCode kVersion = {"EI0008", "client and daemon are of different versions",
                                "install the same version of npu and npud"};
constexpr FaultCode kTransport = {"EI0009",
                                  "the connection to the daemon is gone or was never there",
                                  "look at npud's log, start it again; the run resumes from its "
                                  "newest checkpoint"};
constexpr FaultCode kMemory = {"EI0011", "the device memory does not suffice",
                               "use a smaller train.batch_size, or raise device_memory_bytes"};
constexpr FaultCode kConfig = {"EI0014", "ranks do not agree on the job",
                               "start all ranks with the same job file, options and rank table"};
constexpr FaultCode kPort = {"EI0019", "a port that cannot be used",
                             "leave it out; none is needed"};
constexpr FaultCode kBusy = {"EJ0001", "another process holds the device or the run",
                             "end the process that the message names, or wait for it"};

// The first that fits counts.
constexpr std::array kSituations = {
    Situation{"", 0, "'**' stands for a port", kPort},
    Situation{"", 0, "is no port", kPort},
    Situation{"", 0, "rank table: it lists", kConfig},
    Situation{"", 0, "rank table", kTable},
    Situation{"invalid_argument", 0, "environment: ", kEnvironment},
    Situation{"failed_precondition", 78, "environment: ", kEnvironment},
    Situation{"invalid_argument", 78, "NPU_COLL_", kEnvironment},
    Situation{"deadline_exceeded", 0, "join run", kJoin},
    Situation{"deadline_exceeded", 0, "did not answer", kTransport},
    Situation{"deadline_exceeded", 0, "", kWaited},
    Situation{"aborted", 0, "", kLost},
    Situation{"failed_precondition", 0, "speaks protocol", kVersion},
    Situation{"failed_precondition", 0, "differ in", kDiffer},
    Situation{"failed_precondition", 0, "join run", kConfig},
    Situation{"unavailable", 75, "", kBusy},
    Situation{"unavailable", 69, "", kTransport},
    Situation{"resource_exhausted", 0, "device memory", kMemory},
    Situation{"resource_exhausted", 0, "arena", kMemory},
    Situation{"resource_exhausted", 0, "communicators", kResource},
    Situation{"resource_exhausted", 0, "are outstanding", kResource},
    Situation{"resource_exhausted", 0, "create a stream", kResource},
    Situation{"invalid_argument", 0, "passed a bad", kArgument},
    Situation{"invalid_argument", 0, "names rank", kArgument},
    Situation{"invalid_argument", 0, "a buffer ", kArgument},
};

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace

const FaultCode* fault_code(std::string_view code, int exit_code,
                            std::string_view message) noexcept {
  for (const Situation& s : kSituations) {
    if (!s.code.empty() && s.code != code) continue;
    if (s.exit_code != 0 && s.exit_code != exit_code) continue;
    if (message.find(s.words) != std::string_view::npos) return &s.fault;
  }
  return nullptr;
}

std::string suspect_ranks(std::string_view message) {
  constexpr std::string_view kWord = "rank";
  for (size_t at = message.find(kWord); at != std::string_view::npos;
       at = message.find(kWord, at + 1)) {
    size_t begin = at + kWord.size();
    for (const std::string_view plural : {"(s)", "s"}) {
      if (message.substr(begin).starts_with(plural)) {
        begin += plural.size();
        break;
      }
    }
    if (begin >= message.size() || message[begin] != ' ') continue;
    size_t end = ++begin;
    while (end < message.size() &&
           (is_digit(message[end]) || message[end] == ',' || message[end] == '-')) {
      ++end;
    }
    while (end > begin && !is_digit(message[end - 1])) --end;
    if (end > begin) return std::string(message.substr(begin, end - begin));
  }
  return {};
}

std::string fault_line(std::string_view code, int exit_code, std::string_view message, int blamed) {
  const FaultCode* fault = fault_code(code, exit_code, message);
  if (fault == nullptr) return {};
  std::string suspect = suspect_ranks(message);
  if (suspect.empty() && blamed >= 0) suspect = fmt::format("{}", blamed);
  const std::string who = suspect.empty() ? "" : fmt::format("; suspect: rank {}", suspect);
  return fmt::format("{}: {}{}; remedy: {}", fault->code, fault->cause, who, fault->remedy);
}

}  // namespace npu::client
