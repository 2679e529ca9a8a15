#include "shm/board_data.hpp"
#include "shm/hints_data.hpp"
#include "shm/journal_data.hpp"
#include "shm/layout_data.hpp"
#include "shm/messages.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"
#include "shm/trace_data.hpp"

namespace npu::shm {
namespace {

constexpr uint64_t fnv1a(std::initializer_list<uint64_t> values) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (uint64_t value : values) {
    for (int i = 0; i < 8; ++i) {
      hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3ULL;
    }
  }
  return hash;
}

}  // namespace

uint64_t layout_hash() noexcept {
  constexpr uint64_t kHash = fnv1a({
      kProtocolMajor,
      kLineBytes,
      kMaxDevices,
      kQueueDepth,
      kInlineBytes,
      kOpCount,
      kFlagMask,
      sizeof(SegmentHeader),
      offsetof(SegmentHeader, generation),
      offsetof(SegmentHeader, world),
      sizeof(Descriptor),
      offsetof(Descriptor, count),
      offsetof(Descriptor, communicator),
      offsetof(Descriptor, op),
      offsetof(Descriptor, stream),
      offsetof(Descriptor, inline_payload),
      sizeof(SubmitPage),
      offsetof(SubmitPage, rank),
      offsetof(SubmitPage, progress),
      offsetof(TrainingNumbers, validations),
      offsetof(TrainingText, precision),
      offsetof(SubmitPage, entries),
      offsetof(SubmitPage, vectors),
      sizeof(VectorArgs),
      sizeof(SplitRequest),
      sizeof(SplitReply),
      kMaxStreams,
      sizeof(RunHints),
      offsetof(RunHints, doorbell),
      offsetof(RunHints, arrivals),
      sizeof(Completion),
      offsetof(Completion, sum_squares),
      offsetof(Completion, code),
      offsetof(Completion, inline_payload),
      sizeof(ErrorText),
      sizeof(StatusPage),
      offsetof(StatusPage, completions),
      offsetof(StatusPage, error_texts),
      sizeof(RunBoard),
      offsetof(RunBoard, members),
      offsetof(RunBoard, doorbell),
      offsetof(RunBoard, engine),
      offsetof(RunBoard, abort),
      sizeof(MessageHeader),
      sizeof(Hello),
      sizeof(Welcome),
      sizeof(ErrorReply),
      sizeof(Attach),
      sizeof(Attached),
      sizeof(DeviceRow),
      sizeof(RunRow),
      offsetof(RunRow, place),
      sizeof(QueueJoin),
      sizeof(QueuePlace),
      sizeof(Evict),
      sizeof(CheckpointCommit),
      offsetof(CheckpointCommit, digests_offset),
      sizeof(ReplicaRow),
      sizeof(CheckpointRow),
      sizeof(SnapshotTensor),
      kTraceSlots,
      sizeof(TraceRecord),
      offsetof(TraceRecord, arrival_ns),
      offsetof(TraceRecord, communicator),
      offsetof(TraceRecord, op),
      offsetof(TraceRecord, state),
      sizeof(TraceSlot),
      offsetof(TraceSlot, words),
      sizeof(TraceRing),
      offsetof(TraceRing, count),
      offsetof(TraceRing, slots),
      sizeof(TraceOpen),
      sizeof(TraceOpened),
      sizeof(MetricsOpened),
      sizeof(Reconnect),
      sizeof(Reconnected),
      sizeof(RunJournal),
      offsetof(RunJournal, reduction),
      offsetof(RunJournal, verdict),
      kScratchSlots,
      kScratchBytes,
  });
  return kHash;
}

}  // namespace npu::shm
