// What the daemon tells a rank: completions, one slot a ticket. Mapped read-only by the client
// (F_SEAL_FUTURE_WRITE), so nothing here can be forged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/submit_data.hpp"

namespace npu::shm {

inline constexpr uint32_t kErrorTextBytes = 400;
inline constexpr uint32_t kErrorTexts = 16;

/// Result of one ticket. Slot i % kQueueDepth is published by stamp = i + 1; the rank does not
/// reuse a slot before it has read it, so the daemon never overwrites an unread one of an honest
/// client.
struct alignas(kLineBytes) Completion {
  std::atomic<uint64_t> stamp;  // release by the engine, acquire by the rank
  uint64_t sequence;
  double sum_squares;
  uint32_t error_text;  // index into StatusPage::error_texts, valid when code != 0
  uint8_t code;         // 0 = done, else npu::Code
  uint8_t found_inf;    // some input was not finite
  uint8_t result_inf;   // some result is not finite
  uint8_t algorithm;    // Algorithm that ran
  int32_t culprit;      // rank that caused the error, -1 if none
  uint8_t reserved[4];
  std::byte inline_payload[kInlineBytes];
  uint8_t reserved2[48 - 8];
};
static_assert(sizeof(Completion) == kLineBytes);

/// A sentence for a failed ticket; slots are reused round robin, `ticket_stamp` says whose it is.
struct alignas(kLineBytes) ErrorText {
  std::atomic<uint64_t> ticket_stamp;
  char text[kErrorTextBytes];
};

struct StatusPage {
  SegmentHeader header;
  Completion completions[kQueueDepth];
  ErrorText error_texts[kErrorTexts];
};
static_assert(std::is_standard_layout_v<StatusPage>);

}  // namespace npu::shm
