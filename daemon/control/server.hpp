// The control server: listens, identifies clients by the kernel's word, leases devices, forms and
// ends runs, and passes checkpoints to the store. It never waits for a client, for memory or for
// the disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/control/quotas.hpp"
#include "daemon/service/inherited.hpp"
#include "daemon/service/service.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

struct ServerOptions {
  std::string runtime_dir;
  std::string state_dir;
  uint32_t devices = 8;
  uint64_t device_memory_bytes = uint64_t{4} << 30;
  uint32_t engine_threads = 1;
  /// Serves one launcher, its parent: the first signal lets runs end by themselves, until the
  /// launcher is gone or a second signal comes. A service manager signals launcher, ranks and
  /// daemon at once, and the ranks have a checkpoint to make.
  bool launcher_only = false;
  /// How long collectives in flight may take to end, once the daemon is told to stop.
  milliseconds drain_timeout{25'000};
  ServiceOptions service;
  std::shared_ptr<const Quotas> quotas = std::make_shared<Quotas>();
  std::optional<gid_t> admin_group{};  // besides root and the daemon's own user
  /// Metrics also under the names of Ascend's exporter.
  bool ascend_metrics = false;
};

class Server {
 public:
  /// Takes the lock of the runtime directory, opens the store, listens. Errors: already_exists,
  /// exit 75 (another daemon), as errno says.
  /// Without a socket in `listener` it listens in the runtime directory.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                                             Listener listener = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until SIGTERM or SIGINT (see launcher_only), then drains: collectives in flight end, runs
  /// are told, a checkpoint being written is finished. SIGHUP reads the configuration again.
  void run();
  [[nodiscard]] const std::string& socket_path() const noexcept;
  /// For whatever is asked from now on; what is in use stays. Thread: that of run().
  void use_quotas(std::shared_ptr<const Quotas> quotas);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::daemon
