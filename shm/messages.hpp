// Control messages between a client and the daemon: fixed-size plain structs over SOCK_SEQPACKET,
// little endian, reserved bytes zero, at most 4 KiB. Whatever is not exactly of its type's size is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "shm/layout_data.hpp"

namespace npu::shm {

inline constexpr size_t kMaxMessageBytes = 4096;
inline constexpr uint64_t kHelloMagic = 0x6f'6c'6c'65'68'75'70'6eULL;  // "npuhello"
inline constexpr size_t kNameBytes = 72;  // run names: at most 64 bytes and a terminator
inline constexpr size_t kKeyBytes = 40;   // 128-bit run key in hex
inline constexpr size_t kPathBytes = 512;
inline constexpr size_t kTextBytes = 1024;
inline constexpr size_t kReasonBytes = 256;

enum class MessageType : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kError = 3,  // answer to any request: ErrorReply
  kAttach = 4,
  kAttached = 5,  // with descriptors: arena, submit, status, board, hints; journal if it survives
  kDetach = 6,
  kInfo = 7,
  kDeviceRow = 8,
  kRunRow = 9,
  kEnd = 10,      // closes a list
  kAborted = 11,  // unasked: the run is over (ErrorReply)
  kCheckpointCommit = 12,
  kCheckpointDone = 13,
  kCheckpointList = 14,
  kCheckpointRow = 15,
  kCheckpointOpen = 16,
  kCheckpointOpened = 17,  // with descriptors: model, optimizer, state
  kPs = 24,                // answered by RunRow and End
  kTraceOpen = 25,
  kTraceOpened = 26,  // with a descriptor: flight recorder
  kQueueJoin = 40,
  kQueuePlace = 41,    // unasked, as often as it changes
  kQueueGranted = 42,  // Plain
  kEvict = 43,         // answered by RunRow and End
  kDrain = 44,         // Plain, answered by End
  kMetrics = 50,
  kMetricsOpened = 51,  // with a descriptor: the text
  kReconnect = 60,    // with descriptors: arena, submit, status, hints, journal
  kReconnected = 61,  // with descriptors: status, board
};

/// Begins every message. `request` is the client's number, echoed by the answer.
struct MessageHeader {
  uint32_t type;
  uint32_t size;  // of the whole message
  uint64_t request;
};

/// First message of a session.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  MessageHeader header;
  uint64_t magic;
  uint32_t protocol_major, protocol_minor;
  uint64_t layout_hash;
  char build[32];
};

struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;
  MessageHeader header;
  uint64_t session;
  int64_t daemon_pid;
  uint32_t devices;
  uint32_t engine_threads;
  uint64_t device_memory_bytes;
  char build[32];
};

/// A refusal or failure; for a version mismatch the text names both sides.
struct ErrorReply {
  static constexpr MessageType kType = MessageType::kError;
  MessageHeader header;
  uint8_t code;  // npu::Code
  uint8_t exit;  // npu::Exit
  uint8_t reserved[2];
  int32_t culprit;  // rank, -1 if none
  int64_t pid;
  char text[kTextBytes];
};

struct Attach {
  static constexpr MessageType kType = MessageType::kAttach;
  MessageHeader header;
  uint64_t arena_bytes;
  uint64_t job_hash;
  uint64_t survives;  // 1: the run is to go on when the daemon dies and comes back
  uint32_t world, rank, device;
  uint32_t reserved;
  char run[kNameBytes];
  char key[kKeyBytes];
};

struct Attached {
  static constexpr MessageType kType = MessageType::kAttached;
  MessageHeader header;
  uint64_t generation;
  uint64_t arena_bytes;
};

/// A rank of a run whose daemon died comes to the next one with the memory that it had; the
/// descriptors travel with it.
struct Reconnect {
  static constexpr MessageType kType = MessageType::kReconnect;
  MessageHeader header;
  uint64_t generation;
  uint64_t arena_bytes;
  uint64_t job_hash;
  uint64_t commits;       // that it has made so far
  uint64_t open_commits;  // bit i: number commits - 1 - i is not answered and will be sent again
  uint32_t world, rank, device;
  uint32_t reserved;
  char run[kNameBytes];
  char key[kKeyBytes];
};

/// Every rank has come back: new pages for what the daemon writes, in place of the old ones.
struct Reconnected {
  static constexpr MessageType kType = MessageType::kReconnected;
  MessageHeader header;
  uint64_t generation;
};

/// Requests without a body: Detach, Info, Ps, Drain, Metrics; and the answers End, QueueGranted.
struct Plain {
  MessageHeader header;
};

struct DeviceRow {
  static constexpr MessageType kType = MessageType::kDeviceRow;
  MessageHeader header;
  uint64_t memory_total_bytes, memory_used_bytes;
  uint64_t collectives;
  int64_t pid, uid;
  uint32_t id;
  uint32_t busy;
  int32_t rank;
  uint32_t reserved;
  char run[kNameBytes];
};

struct RunRow {
  static constexpr MessageType kType = MessageType::kRunRow;
  MessageHeader header;
  uint64_t generation;
  uint64_t collectives;
  int64_t uid;
  uint32_t world, joined;
  uint32_t state;                    // RunState
  uint32_t failed_checkpoints;       // in a row, up to the last one
  int64_t launcher;                  // pid of who waited for the devices, 0 if nobody did
  uint32_t place;                    // in the line of who waits, 0: does not wait
  uint32_t reserved;
  int64_t started_unix, ended_unix;  // seconds; 0: has not ended
  // By rank; a rank that has not come or has left has pid 0.
  int64_t pids[kMaxDevices];
  uint64_t steps[kMaxDevices];  // what the rank says of itself
  uint32_t devices[kMaxDevices];
  char run[kNameBytes];
  char error[kTextBytes];
};

/// Every rank sends one per checkpoint, or per check of the replicas; rank 0's carries the
/// snapshot. Offsets are into the sender's arena. The n-th commits of all ranks belong together.
struct CheckpointCommit {
  static constexpr MessageType kType = MessageType::kCheckpointCommit;
  MessageHeader header;
  uint64_t index;  // this rank's first is 0, each next one is one more
  int64_t step;
  uint64_t replica_digest;  // of this rank's parameters, momentum and buffers; must be equal on all
  uint64_t digests_offset;  // ReplicaRow[digests_count]: what it is made of, to name what differs
  uint64_t weights_digest;  // layout-independent, rank 0 only
  uint64_t table_offset;    // SnapshotTensor[table_count], rank 0 only
  uint64_t state_offset, state_bytes;  // JSON text, rank 0 only
  uint32_t digests_count;              // 0: a difference has no name
  uint32_t table_count;                // 0: digest only
  uint32_t keep;
  uint32_t best;        // 1: of the run's best epoch; rotation spares it
  uint32_t check_only;  // 1 on all ranks: the digests are compared, nothing is written
  uint32_t memory;      // 1 on all ranks: kept in the daemon's memory, nothing is written
};

/// One part of a replica, in the arena of the sender (not a message of its own).
struct ReplicaRow {
  uint64_t digest;
  uint32_t kind;  // ReplicaPart
  uint32_t reserved;
  char name[kNameBytes];  // in the state dict
};

enum class ReplicaPart : uint32_t {
  kParameter = 0,
  kMomentum = 1,
  kBuffer = 2,
  kAverage = 3,  // of a parameter or a buffer
};

/// One tensor of a snapshot, in the arena of the sender (not a message of its own).
struct SnapshotTensor {
  uint64_t offset, bytes;
  uint64_t digest;  // XXH3-64 of the bytes
  int64_t shape[4];
  uint32_t rank;  // dimensions used, 0..4
  uint8_t file;   // 0 model, 1 optimizer
  uint8_t dtype;  // npu::DType
  uint8_t reserved[2];
  char name[kNameBytes];
};

struct CheckpointDone {
  static constexpr MessageType kType = MessageType::kCheckpointDone;
  MessageHeader header;
  int64_t step;
  uint64_t bytes;
  double durable_ms;
  char path[kPathBytes];
};

struct CheckpointList {
  static constexpr MessageType kType = MessageType::kCheckpointList;
  MessageHeader header;
  uint32_t verify;
  uint32_t reserved;
  char run[kNameBytes];  // empty: all of the caller's
};

struct CheckpointRow {
  static constexpr MessageType kType = MessageType::kCheckpointRow;
  MessageHeader header;
  int64_t step;
  uint64_t bytes;
  int64_t unix_time;
  uint32_t latest;
  uint32_t valid;
  uint32_t best;
  uint32_t reserved;
  char run[kNameBytes];
  char path[kPathBytes];
  char state[kPathBytes];
};

inline constexpr int64_t kNewestStep = -1;  // the newest valid one
inline constexpr int64_t kBestStep = -2;
inline constexpr int64_t kResumeStep =
    -3;  // the newest valid one, on disk or in the daemon's memory

struct CheckpointOpen {
  static constexpr MessageType kType = MessageType::kCheckpointOpen;
  MessageHeader header;
  int64_t step;  // or one of the above
  char run[kNameBytes];
};

struct CheckpointOpened {
  static constexpr MessageType kType = MessageType::kCheckpointOpened;
  MessageHeader header;
  int64_t step;
  char path[kPathBytes];
  char warning[kTextBytes];  // what was skipped on the way, empty if nothing
};

/// Asks for the flight recorder of the newest run of that name.
struct TraceOpen {
  static constexpr MessageType kType = MessageType::kTraceOpen;
  MessageHeader header;
  char run[kNameBytes];
};

struct TraceOpened {
  static constexpr MessageType kType = MessageType::kTraceOpened;
  MessageHeader header;
  uint64_t generation;
  int64_t uid;
  uint32_t world;
  uint32_t state;  // RunState
  char run[kNameBytes];
  char error[kTextBytes];  // why the run was aborted, empty if it was not
};

/// Stands in line for all of these devices. From QueueGranted on they are kept for ranks of this
/// user's run of that name, until this connection ends.
struct QueueJoin {
  static constexpr MessageType kType = MessageType::kQueueJoin;
  MessageHeader header;
  uint32_t devices;  // bit d: device d
  uint32_t reserved;
  char run[kNameBytes];
};

struct QueuePlace {
  static constexpr MessageType kType = MessageType::kQueuePlace;
  MessageHeader header;
  uint32_t place;  // 1: next
  uint32_t reserved;
  char text[kTextBytes];  // who has the devices, as far as this user may know
};

/// Ends a run, or what waits under that name.
struct Evict {
  static constexpr MessageType kType = MessageType::kEvict;
  MessageHeader header;
  int64_t uid;  // whose run, -1: the sender's own, else the only one of that name
  char run[kNameBytes];
  char reason[kReasonBytes];
};

/// The metrics that the caller may see, as Prometheus reads them; a sealed file of `bytes` bytes.
struct MetricsOpened {
  static constexpr MessageType kType = MessageType::kMetricsOpened;
  MessageHeader header;
  uint64_t bytes;
};

/// A zeroed message with its header filled.
template <typename M>
[[nodiscard]] M make_message(uint64_t request) noexcept {
  static_assert(std::is_trivially_copyable_v<M> && sizeof(M) <= kMaxMessageBytes);
  M message{};
  message.header = {static_cast<uint32_t>(M::kType), sizeof(M), request};
  return message;
}

[[nodiscard]] inline Plain make_plain(MessageType type, uint64_t request) noexcept {
  return Plain{{static_cast<uint32_t>(type), sizeof(Plain), request}};
}

/// Copies with truncation; the rest of the field is zero.
template <size_t N>
void put_text(char (&field)[N], std::string_view text) noexcept {
  const size_t n = text.size() < N - 1 ? text.size() : N - 1;
  for (size_t i = 0; i < N; ++i) field[i] = i < n ? text[i] : '\0';
}

/// The text up to the first zero; the field's end bounds a missing terminator.
template <size_t N>
[[nodiscard]] std::string get_text(const char (&field)[N]) {
  size_t n = 0;
  while (n < N && field[n] != '\0') ++n;
  return std::string(field, n);
}

/// True for [a-z0-9._-]{1,64} other than "." and "..": the names that become directories.
[[nodiscard]] bool valid_run_name(std::string_view name) noexcept;

}  // namespace npu::shm
