#include "client/api/connection.hpp"

#include <sys/socket.h>

#include <array>

#include "client/version.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::client {

Error to_error(const shm::ErrorReply& reply) {
  return Error{static_cast<Code>(reply.code), shm::get_text(reply.text),
               static_cast<Exit>(reply.exit)};
}

Error daemon_lost(const std::string& socket) {
  return Error{
      Code::kUnavailable,
      fmt::format(
          "the daemon at '{}' is gone: its connection closed; start it again and relaunch, the "
          "run resumes from its last checkpoint",
          socket),
      Exit::kNoDaemon};
}

Result<Connection> Connection::open(const std::string& socket, milliseconds limit) {
  NPU_TRY(UniqueFd fd, shm::connect_to(socket));
  Connection connection(std::move(fd), socket);
  auto hello = shm::make_message<shm::Hello>(connection.next_request());
  hello.magic = shm::kHelloMagic;
  hello.protocol_major = shm::kProtocolMajor;
  hello.protocol_minor = shm::kProtocolMinor;
  hello.layout_hash = shm::layout_hash();
  shm::put_text(hello.build, kVersion);
  // A daemon that refuses a connection says why and closes it, maybe before our greeting: what it
  // said is there to be read all the same.
  (void)connection.send(hello);
  NPU_TRY(const shm::Received answer, connection.receive(Deadline::after(limit)));
  if (!answer.is<shm::Welcome>()) {
    return fail(Code::kUnavailable, "greet the daemon at '{}': it answered with message type {}",
                socket, answer.header().type);
  }
  connection.welcome_ = answer.as<shm::Welcome>();
  return connection;
}

void Connection::misbehave() noexcept {
  if (NPU_FAILPOINT_ASKED("client.close_connection", failpoint::Action::kClose)) {
    (void)::shutdown(fd_.get(), SHUT_RDWR);
  }
  if (NPU_FAILPOINT_ASKED("client.garbage_message", failpoint::Action::kGarbage)) {
    std::array<uint64_t, 8> garbage;
    garbage.fill(~uint64_t{0});
    (void)::send(fd_.get(), garbage.data(), sizeof(garbage), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

Result<shm::Received> Connection::receive(Deadline deadline) {
  shm::Received message;
  for (;;) {
    switch (shm::receive(fd_.get(), message)) {
      case shm::ReceiveStatus::kClosed:
        return tl::unexpected(daemon_lost(socket_));
      case shm::ReceiveStatus::kBroken:
        return fail(Code::kUnavailable, "the daemon at '{}' sent a malformed message", socket_);
      case shm::ReceiveStatus::kMessage:
        if (message.size == sizeof(shm::ErrorReply) && message.type() == shm::MessageType::kError) {
          return tl::unexpected(to_error(message.as<shm::ErrorReply>()));
        }
        return message;
      case shm::ReceiveStatus::kEmpty:
        break;
    }
    if (!shm::wait_readable(fd_.get(), deadline)) {
      return fail_exit(Code::kDeadlineExceeded, Exit::kNoDaemon,
                       "the daemon at '{}' did not answer in time", socket_);
    }
  }
}

}  // namespace npu::client
