// A greeted connection to the daemon: requests and answers in order, for callers that do not hold a
// device.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/channel.hpp"

namespace npu::client {

/// What a control request may take; disk work of the daemon is waited for without a limit.
inline constexpr auto kRequestLimit = std::chrono::seconds(30);

/// The error arm of an ErrorReply.
[[nodiscard]] Error to_error(const shm::ErrorReply& reply);

/// Thread: one at a time.
class Connection {
 public:
  /// Connects and greets. Errors: unavailable (no daemon; names the path); failed_precondition
  /// (another version).
  /// `limit`: of the wait for its greeting; deadline_exceeded when it is over.
  [[nodiscard]] static Result<Connection> open(const std::string& socket,
                                               milliseconds limit = milliseconds(5'000));

  [[nodiscard]] uint64_t next_request() noexcept { return ++request_; }
  template <typename M>
  [[nodiscard]] Result<void> send(const M& message) {
    misbehave();
    return shm::send_message(fd_.get(), message);
  }
  /// The next message; an ErrorReply becomes an error. Errors: unavailable (daemon gone),
  /// deadline_exceeded.
  [[nodiscard]] Result<shm::Received> receive(Deadline deadline);

  [[nodiscard]] const shm::Welcome& welcome() const noexcept { return welcome_; }
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Nothing is sent or received from here on.
  void close() noexcept { fd_.reset(); }

 private:
  Connection(UniqueFd fd, std::string socket) : fd_(std::move(fd)), socket_(std::move(socket)) {}
  void misbehave() noexcept;  // where a failpoint asks for it
  UniqueFd fd_;
  std::string socket_;
  shm::Welcome welcome_{};
  uint64_t request_ = 0;
};

/// "the daemon at '...' is gone": what every call says after its connection broke.
[[nodiscard]] Error daemon_lost(const std::string& socket);

}  // namespace npu::client
