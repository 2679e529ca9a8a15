#include "daemon/control/queue/launch_queue.hpp"

#include <algorithm>

namespace npu::daemon {

bool LaunchQueue::leave(uint64_t session) noexcept {
  return std::erase_if(tickets_, [session](const Ticket& t) { return t.session == session; }) != 0;
}

std::vector<Ticket*> LaunchQueue::grant(uint32_t busy,
                                        const std::function<bool(const Ticket&)>& may_have) {
  std::vector<Ticket*> granted;
  uint32_t taken = busy;
  for (const Ticket& ticket : tickets_) taken |= ticket.granted ? ticket.devices : 0;
  for (Ticket& ticket : tickets_) {
    if (ticket.granted) continue;
    ticket.passed_over = !may_have(ticket);
    if (ticket.passed_over) continue;
    if ((ticket.devices & taken) == 0) {
      ticket.granted = true;
      granted.push_back(&ticket);
    }
    taken |= ticket.devices;  // who comes later does not overtake
  }
  return granted;
}

const Ticket* LaunchQueue::holder(uint32_t device) const noexcept {
  const auto found = std::ranges::find_if(tickets_, [device](const Ticket& t) {
    return t.granted && ((t.devices >> device) & 1U) != 0;
  });
  return found == tickets_.end() ? nullptr : &*found;
}

const Ticket* LaunchQueue::in_the_way(uint32_t device, int64_t uid, const std::string& run,
                                      bool forming) const noexcept {
  if (const Ticket* has = holder(device)) {
    return has->uid == uid && has->run == run ? nullptr : has;
  }
  if (forming) return nullptr;
  const auto found = std::ranges::find_if(tickets_, [device](const Ticket& t) {
    return !t.granted && !t.passed_over && ((t.devices >> device) & 1U) != 0;
  });
  return found == tickets_.end() ? nullptr : &*found;
}

uint32_t LaunchQueue::place(const Ticket& ticket) const noexcept {
  uint32_t place = 0;
  for (const Ticket& other : tickets_) {
    if (other.granted) continue;
    ++place;
    if (other.session == ticket.session) return place;
  }
  return 0;
}

uint32_t LaunchQueue::before(const Ticket& ticket) const noexcept {
  uint32_t count = 0;
  for (const Ticket& other : tickets_) {
    if (other.session == ticket.session) break;
    const bool waits = !other.granted && !other.passed_over;
    count += waits && (other.devices & ticket.devices) != 0 ? 1 : 0;
  }
  return count;
}

uint32_t LaunchQueue::waiting() const noexcept {
  return static_cast<uint32_t>(
      std::ranges::count_if(tickets_, [](const Ticket& t) { return !t.granted; }));
}

}  // namespace npu::daemon
