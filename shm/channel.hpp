// SOCK_SEQPACKET messages with descriptors: one send, one receive, message borders kept by the
// kernel.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"
#include "shm/messages.hpp"

namespace npu::shm {

inline constexpr size_t kMaxPassedFds = 8;

/// A received message: validated for length against its header, not for content.
struct Received {
  alignas(8) std::array<std::byte, kMaxMessageBytes> bytes{};
  size_t size = 0;
  std::vector<UniqueFd> fds;

  [[nodiscard]] MessageHeader header() const noexcept;
  [[nodiscard]] MessageType type() const noexcept {
    return static_cast<MessageType>(header().type);
  }
  /// A copy as M if the size is exactly M's; nullptr-like empty optional otherwise is avoided by
  /// the caller checking is<M>() first.
  template <typename M>
  [[nodiscard]] bool is() const noexcept {
    return type() == M::kType && size == sizeof(M);
  }
  template <typename M>
  [[nodiscard]] M as() const noexcept {
    M message;
    __builtin_memcpy(&message, bytes.data(), sizeof(M));
    return message;
  }
};

enum class ReceiveStatus : uint8_t { kMessage, kEmpty, kClosed, kBroken };

/// One message without blocking. kBroken: truncated, wrong length or cut descriptors; everything
/// received is closed.
[[nodiscard]] ReceiveStatus receive(int socket, Received& into) noexcept;

/// Sends without blocking and without SIGPIPE. Errors: unavailable (peer gone), resource_exhausted
/// (queue full).
[[nodiscard]] Result<void> send(int socket, const void* message, size_t size,
                                std::span<const int> fds = {});

template <typename M>
[[nodiscard]] Result<void> send_message(int socket, const M& message,
                                        std::span<const int> fds = {}) {
  return send(socket, &message, sizeof(M), fds);
}

/// Connects to a daemon. Errors: unavailable naming the path and why.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

/// Listens at `path`; a stale socket file (nobody answers) is replaced. Errors: already_exists if a
/// daemon answers there.
[[nodiscard]] Result<UniqueFd> listen_at(const std::string& path, mode_t mode);

/// True when readable (or closed) within the time; signals do not shorten it.
[[nodiscard]] bool wait_readable(int socket, Deadline deadline) noexcept;

}  // namespace npu::shm
