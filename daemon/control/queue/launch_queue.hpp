// The line of launches that wait for devices. Plain bookkeeping: who stands where, who is in whose
// way, who gets what next; no sockets, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace npu::daemon {

/// A launch that waits for all of its devices at once, or was given them. Its launcher's connection
/// keeps it: it ends when that does.
struct Ticket {
  uint64_t session = 0;
  uint64_t request = 0;  // of the launcher's, for the answers
  int64_t uid = 0, pid = 0;
  std::string run;
  uint32_t devices = 0;  // bit d: device d
  bool granted = false;
  bool passed_over = false;  // its user may have no more at present: it stands in nobody's way
  std::string told;          // what its launcher knows
};

/// Invariants: (1) a launch gets all of its devices or none; (2) it gets them before everybody who
/// came later and wants one of them, however few those want, so that nobody waits for ever; (3) who
/// wants other devices does not wait.
/// Thread: the control server.
class LaunchQueue {
 public:
  void join(Ticket ticket) { tickets_.push_back(std::move(ticket)); }
  /// Of the session, waiting or granted. True if there was one.
  bool leave(uint64_t session) noexcept;

  /// Grants what can be granted and returns it. `busy`: the devices that runs hold. `may_have`:
  /// false for a launch that has to wait for its own user, who uses up a quota or the name.
  std::vector<Ticket*> grant(uint32_t busy, const std::function<bool(const Ticket&)>& may_have);

  /// The launch that keeps a rank of (uid, run) from `device`, null if none does. A run that is
  /// forming already came before those that wait now.
  [[nodiscard]] const Ticket* in_the_way(uint32_t device, int64_t uid, const std::string& run,
                                         bool forming) const noexcept;

  /// 1 for the first that waits; 0 for one that does not.
  [[nodiscard]] uint32_t place(const Ticket& ticket) const noexcept;
  /// Those who wait before it for one of its devices.
  [[nodiscard]] uint32_t before(const Ticket& ticket) const noexcept;
  [[nodiscard]] uint32_t waiting() const noexcept;

  [[nodiscard]] std::deque<Ticket>& tickets() noexcept { return tickets_; }
  [[nodiscard]] const std::deque<Ticket>& tickets() const noexcept { return tickets_; }
  /// The granted one that has the device.
  [[nodiscard]] const Ticket* holder(uint32_t device) const noexcept;

 private:
  std::deque<Ticket> tickets_;  // in order of arrival
};

}  // namespace npu::daemon
