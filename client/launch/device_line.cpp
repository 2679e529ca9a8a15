#include "client/launch/device_line.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "client/launch/recovery.hpp"
#include "shm/base/rank_list.hpp"

namespace npu::client {
namespace {

uint32_t mask_of(const std::vector<int>& devices) {
  uint32_t mask = 0;
  for (const int device : devices) mask |= 1U << device;
  return mask;
}

tl::unexpected<Error> too_late(const DeviceWait& request, const shm::QueuePlace& place) {
  return fail_exit(Code::kUnavailable, Exit::kBusy,
                   "devices {} were not free within {:g} s: place {} in the line; {}",
                   rank_list(mask_of(request.devices)),
                   std::chrono::duration<double>(*request.limit).count(), place.place,
                   shm::get_text(place.text));
}

/// True when the socket has something before `deadline`.
Result<bool> wait_for_news(int socket, StopSignals& signals, Deadline deadline) {
  pollfd ready[2] = {{socket, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
  const auto left = std::chrono::ceil<milliseconds>(deadline.remaining(std::chrono::hours(1)));
  (void)::poll(ready, 2, static_cast<int>(left.count()));
  NPU_TRY_VOID(check_signals(signals, "waiting for devices"));
  return ready[0].revents != 0;
}

}  // namespace

Result<DeviceHold> DeviceHold::wait(const DeviceWait& request, StopSignals& signals) {
  NPU_TRY(Connection connection, Connection::open(request.socket));
  auto join = shm::make_message<shm::QueueJoin>(connection.next_request());
  join.devices = mask_of(request.devices);
  shm::put_text(join.run, request.run);
  NPU_TRY_VOID(connection.send(join));
  const Deadline deadline = request.limit ? Deadline::after(*request.limit) : Deadline::never();
  shm::QueuePlace place{};
  for (;;) {
    NPU_TRY(const bool news, wait_for_news(connection.fd(), signals, deadline));
    if (!news) {
      // A daemon that has not said anything yet is not late: the first answer comes at once.
      if (deadline.passed() && place.place != 0) return too_late(request, place);
      if (!deadline.passed()) continue;
    }
    NPU_TRY(const shm::Received message, connection.receive(Deadline::after(kRequestLimit)));
    if (message.type() == shm::MessageType::kQueueGranted) return DeviceHold(std::move(connection));
    if (!message.is<shm::QueuePlace>()) continue;
    place = message.as<shm::QueuePlace>();
    if (request.on_place) request.on_place(place.place, shm::get_text(place.text));
  }
}

bool DeviceHold::holds() const noexcept {
  char byte = 0;
  const ssize_t n = ::recv(connection_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EINTR);  // it has nothing more to say
}

}  // namespace npu::client
