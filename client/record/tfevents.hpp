// TensorBoard's event files: records with checksums around protobuf `Event` messages. Only what a
// training curve needs of the message is here: file version, one scalar, session start.
// Source: TensorFlow's record_writer.cc and event.proto; encoded by hand, because two messages of
// four fields are less than a code generator and its run-time library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

struct TfVersion {
  bool operator==(const TfVersion&) const = default;
};
struct TfScalar {
  std::string tag;
  float value = 0;
  bool operator==(const TfScalar&) const = default;
};
/// TensorBoard drops what an older file of the folder says of this step and later ones.
struct TfSessionStart {
  bool operator==(const TfSessionStart&) const = default;
};

struct TfEvent {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::variant<TfVersion, TfScalar, TfSessionStart> what;
  bool operator==(const TfEvent&) const = default;
};

/// CRC-32C (Castagnoli) of `bytes`, and the same rotated and shifted as records store it.
[[nodiscard]] uint32_t crc32c(std::string_view bytes) noexcept;
[[nodiscard]] uint32_t masked_crc32c(std::string_view bytes) noexcept;

/// Length, its checksum, `payload`, its checksum; little endian.
[[nodiscard]] std::string tf_record(std::string_view payload);

/// The event as a record.
[[nodiscard]] std::string tf_event_record(const TfEvent& event);

struct TfEventFile {
  std::vector<TfEvent> events;
  bool cut = false;  // the last record is not complete
};

/// Reads what tf_event_record writes, as far as it goes: a record that was cut ends the list and
/// sets `cut`; events of other kinds are skipped. Errors: data_loss naming the number of a record
/// whose checksum does not hold or whose message does not parse.
[[nodiscard]] Result<TfEventFile> read_tf_events(std::string_view bytes);

}  // namespace npu::client
