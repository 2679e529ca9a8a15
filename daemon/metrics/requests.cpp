#include "daemon/metrics/requests.hpp"

#include <cstring>

namespace npu::daemon {
namespace {

using shm::MessageType;

/// The outcome if the message ends an answer: rows of a list do not, and news that nobody asked for does not.
std::optional<size_t> outcome_of(std::span<const std::byte> message, const shm::MessageHeader& header) noexcept {
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kDeviceRow:
    case MessageType::kRunRow:
    case MessageType::kCheckpointRow:
    case MessageType::kQueuePlace:
    case MessageType::kAborted:
      return std::nullopt;
    case MessageType::kError: {
      shm::ErrorReply reply;
      if (message.size() < sizeof(reply)) return std::nullopt;
      std::memcpy(&reply, message.data(), sizeof(reply));
      return reply.code < kCodes ? reply.code : static_cast<size_t>(Code::kInternal);
    }
    default:
      return 0;
  }
}

}  // namespace

const char* method_name(Method method) noexcept {
  constexpr std::array<const char*, kMethods> kNames = {
      "hello",           "attach", "detach", "info",  "ps",    "checkpoint_commit", "checkpoint_list",
      "checkpoint_open", "trace",  "queue",  "evict", "drain", "metrics",           "unknown"};
  return kNames[static_cast<size_t>(method)];
}

Method method_of(uint32_t message_type) noexcept {
  switch (static_cast<MessageType>(message_type)) {
    case MessageType::kHello:
      return Method::kHello;
    case MessageType::kAttach:
      return Method::kAttach;
    case MessageType::kDetach:
      return Method::kDetach;
    case MessageType::kInfo:
      return Method::kInfo;
    case MessageType::kPs:
      return Method::kPs;
    case MessageType::kCheckpointCommit:
      return Method::kCommit;
    case MessageType::kCheckpointList:
      return Method::kList;
    case MessageType::kCheckpointOpen:
      return Method::kOpen;
    case MessageType::kTraceOpen:
      return Method::kTrace;
    case MessageType::kQueueJoin:
      return Method::kQueue;
    case MessageType::kEvict:
      return Method::kEvict;
    case MessageType::kDrain:
      return Method::kDrain;
    case MessageType::kMetrics:
      return Method::kMetrics;
    default:
      return Method::kUnknown;
  }
}

const char* outcome_name(size_t outcome) noexcept {
  if (outcome == 0) return "ok";
  if (outcome == kOutcomeGone) return "gone";
  return code_name(static_cast<Code>(outcome)).data();
}

void RequestMeter::begin(uint64_t session, uint64_t request, Method method, uint64_t now_ns) {
  if (open_.size() >= kMaxOpen) return;
  open_[{session, request}] = {method, now_ns};
}

void RequestMeter::answered(uint64_t session, std::span<const std::byte> message, uint64_t now_ns) {
  shm::MessageHeader header;
  if (message.size() < sizeof(header)) return;
  std::memcpy(&header, message.data(), sizeof(header));
  const auto found = open_.find({session, header.request});
  if (found == open_.end()) return;
  const auto outcome = outcome_of(message, header);
  if (!outcome) return;
  const auto method = static_cast<size_t>(found->second.method);
  ++counts_[method][*outcome];
  durations_[method].add(now_ns - found->second.begin_ns);
  open_.erase(found);
}

void RequestMeter::forget(uint64_t session) {
  const auto begin = open_.lower_bound({session, 0});
  auto end = begin;
  for (; end != open_.end() && end->first.first == session; ++end) {
    ++counts_[static_cast<size_t>(end->second.method)][kOutcomeGone];
  }
  open_.erase(begin, end);
}

}  // namespace npu::daemon
