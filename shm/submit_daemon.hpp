// The daemon's end of the submission ring and of the completion slots. Every byte of the submit
// page belongs to a client that may be broken or hostile: an entry is copied once, the copy is
// validated, the copy is used.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::shm {

/// An entry as the daemon owns it after the copy.
struct Submission {
  uint64_t ticket;
  uint64_t generation, count, send_offset, recv_offset;
  double scale;
  uint32_t communicator, timeout_ms, root, flags;
  uint8_t op, dtype, reduce_op, algorithm, stream;
  alignas(16) std::array<std::byte, kInlineBytes> inline_payload;  // read as elements of any type
};

/// What a submission may ask for: the lease, and the communicator that it names.
struct SubmissionLimits {
  uint64_t generation = 0;
  uint64_t arena_bytes = 0;
  uint32_t size = 1;  // of the communicator
  uint32_t rank = 0;  // in it
};

enum class Fault : uint8_t {
  kNone,
  kGeneration,
  kCommunicator,
  kOp,
  kDType,
  kReduceOp,
  kAlgorithm,
  kFlags,
  kRoot,
  kCount,  // overflows, or does not fit the inline payload
  kRange,  // offset + length beyond the arena
  kAlignment,
  kOverlap,  // send and receive overlap partly, or received parts each other
  kStream,
  kPeer,  // of a send or receive
};

/// "generation", "count", ...: the field that is wrong.
[[nodiscard]] std::string_view fault_name(Fault fault) noexcept;

/// Checks private copies; `vectors` counts only for op_has_vectors. Nothing in them is
/// dereferenced. Thread: any. Cost: a few comparisons.
[[nodiscard]] Fault validate(const Submission& submission, const VectorArgs& vectors,
                             const SubmissionLimits& limits) noexcept;

/// Consumer of one submit page. Thread: the engine coordinator only.
class SubmissionReader {
 public:
  SubmissionReader() noexcept = default;
  /// `next`: the ticket to begin with, in a run that is taken over.
  explicit SubmissionReader(const SubmitPage* page, uint64_t next = 0) noexcept
      : page_(page), head_(next) {}

  /// True if the next entry is published. seq_cst: part of the sleep protocol.
  [[nodiscard]] bool ready() const noexcept;
  /// Copies the next entry if it is published, and its vectors if the operation has any. Never
  /// loops on client memory.
  [[nodiscard]] bool pop(Submission& out, VectorArgs& vectors) noexcept;
  [[nodiscard]] uint64_t taken() const noexcept { return head_; }

 private:
  const SubmitPage* page_ = nullptr;
  uint64_t head_ = 0;  // private: a client cannot move it
};

struct CompletionFields {
  uint8_t code = 0;
  bool found_inf = false;
  bool result_inf = false;
  Algorithm algorithm = Algorithm::kAuto;
  int32_t culprit = -1;
  uint64_t sequence = 0;
  double sum_squares = 0;
  const std::byte* inline_payload = nullptr;  // kInlineBytes, or null
  std::string_view error_text = {};
};

/// Writes completions of one status page. Thread: the engine coordinator only.
class CompletionWriter {
 public:
  CompletionWriter() noexcept = default;
  explicit CompletionWriter(StatusPage* page) noexcept : page_(page) {}
  void publish(uint64_t ticket, const CompletionFields& fields) noexcept;

 private:
  StatusPage* page_ = nullptr;
  uint32_t next_text_ = 0;
};

}  // namespace npu::shm
