// One client connection: who it is by the kernel's word, what it said so far, what waits to be sent
// to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/control/authority.hpp"
#include "daemon/control/limits.hpp"
#include "daemon/control/run_table.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"

namespace npu::daemon {

/// Identity from SO_PEERCRED, SO_PEERGROUPS and a pidfd: the fd becomes readable when the process
/// dies.
struct Peer {
  int64_t pid = 0;
  int64_t uid = 0;
  bool admin = false;
  UniqueFd pidfd;

  [[nodiscard]] Rights rights() const noexcept { return {uid, admin}; }
};

/// Errors: unavailable when the peer is already gone.
[[nodiscard]] Result<Peer> identify_peer(int socket, std::optional<gid_t> admin_group);

struct Outgoing {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

struct Session {
  uint64_t id = 0;
  UniqueFd socket;
  Peer peer;
  bool greeted = false;
  Deadline greet_deadline = Deadline::never();
  // A dying process closes its socket a moment before its pidfd fires; until then it only looks
  // like leaving.
  Deadline close_deadline = Deadline::never();
  std::deque<Outgoing> outgoing;  // what the socket did not take yet
  size_t outgoing_fds = 0;        // among it
  TokenBucket messages{kMessagesPerSecond, kMessageBurst, Clock::now()};
  bool slowed = false;                 // not read until tokens have come back
  bool queued = false;                 // a launcher that waits for devices, or holds them
  uint32_t disk_tasks = 0;             // listings and openings in progress
  const char* broken = nullptr;        // what it did, once its socket is shut
  std::shared_ptr<std::atomic<bool>> gone =  // tells tasks on other threads that nobody waits
      std::make_shared<std::atomic<bool>>(false);
  // Place in a run; run == 0: none.
  uint64_t run = 0;
  uint32_t rank = 0;
  bool detached = false;
};

}  // namespace npu::daemon
