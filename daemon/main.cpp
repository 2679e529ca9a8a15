// npud: options, directories, logging, then the control server until a signal.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "config/daemon.hpp"
#include "daemon/control/authority.hpp"
#include "daemon/control/server.hpp"
#include "daemon/log.hpp"
#include "daemon/service/inherited.hpp"
#include "daemon/version.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/paths.hpp"

namespace {

using npu::Exit;

struct Options {
  std::string config;
  std::string runtime_dir;
  std::string state_dir;
  int devices = 0;
  int engine_threads = 0;
  bool foreground = false;
  bool launcher_only = false;
  bool check_config = false;
};

int report(const npu::Error& error) {
  std::fprintf(stderr, "npud: error: %s\n", error.message.c_str());
  return static_cast<int>(error.exit);
}

uint32_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

/// Each client costs two descriptors and a run some more; the usual soft limit of 1024 is there for
/// programs that use select().
void raise_descriptor_limit() {
  constexpr rlim_t kWanted = 8192;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = limit.rlim_max < kWanted ? limit.rlim_max : kWanted;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // with fewer, fewer clients are admitted
}

/// Signals are read from a descriptor by the control server; every thread inherits the mask.
void block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int sig : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, sig);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

npu::Result<npu::daemon::ServerOptions> resolve(const Options& options,
                                                const npu::config::DaemonConfig& config) {
  npu::daemon::ServerOptions server;
  const auto pick = [](const std::string& first, const std::string& second, std::string fallback) {
    return !first.empty() ? first : !second.empty() ? second : std::move(fallback);
  };
  server.runtime_dir =
      pick(options.runtime_dir, config.runtime_dir, npu::shm::default_runtime_dir());
  server.state_dir = pick(options.state_dir, config.state_dir, npu::shm::default_state_dir());
  server.devices = static_cast<uint32_t>(options.devices > 0 ? options.devices : config.devices);
  server.device_memory_bytes = config.device_memory_bytes;
  server.launcher_only = options.launcher_only;
  server.drain_timeout = config.service.drain_timeout;
  server.service = {.config_path = options.config,
                    .config = config,
                    .levels_fixed = std::getenv("NPU_LOG") != nullptr};
  server.ascend_metrics = config.metrics_compat == npu::config::MetricsCompat::kAscend;
  const int threads = options.engine_threads > 0 ? options.engine_threads : config.engine_threads;
  const uint32_t cores = allowed_cpus();
  server.engine_threads = threads > 0 ? static_cast<uint32_t>(threads) : cores;
  if (server.engine_threads > 8) server.engine_threads = 8;
  NPU_TRY(server.quotas, npu::daemon::Quotas::make(config.quotas));
  const bool named = config.admin_group != npu::config::DaemonConfig{}.admin_group;
  if (auto group = npu::daemon::find_group(config.admin_group)) {
    server.admin_group = *group;
  } else if (named) {  // a host without the usual group has root alone
    return tl::make_unexpected(std::move(group.error()));
  }
  return server;
}

int serve(const Options& options) {
  npu::config::DaemonConfig config;
  if (!options.config.empty()) {
    auto loaded = npu::config::load_daemon_config(options.config);
    if (!loaded) return report(loaded.error());
    config = std::move(*loaded);
  }
  const auto server_options = resolve(options, config);
  if (!server_options) return report(server_options.error());
  if (options.check_config) return static_cast<int>(Exit::kOk);
  auto inherited = npu::daemon::take_inherited();  // before there are threads
  if (!inherited) return report(inherited.error());
  const char* levels = std::getenv("NPU_LOG");
  npu::daemon::start_logging(levels != nullptr ? levels : config.log_level);
  // The thread that aborts a run must win against eight busy trainers. Refused without privilege,
  // ignoring.
  (void)::setpriority(PRIO_PROCESS, 0, -10);
  raise_descriptor_limit();
  for (const auto& other : inherited->others) {
    log_event(npu::daemon::Level::kWarn, "ctl", "closing a descriptor that was passed at the start",
              {{"name", other.name}});
  }
  auto server = npu::daemon::Server::start(*server_options, std::move(inherited->listener));
  if (!server) {
    npu::daemon::stop_logging();
    return report(server.error());
  }
  log_event(npu::daemon::Level::kInfo, "ctl", "listening",
            {{"socket", (*server)->socket_path()},
             {"devices", server_options->devices},
             {"engine_threads", server_options->engine_threads},
             {"state", server_options->state_dir},
             {"version", npu::daemon::kVersion}});
  (*server)->run();
  server->reset();
  npu::daemon::stop_logging();
  return static_cast<int>(Exit::kOk);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"npud: owns the emulated devices of a host and runs their collectives"};
  app.set_version_flag("--version", std::string("npud ") + npu::daemon::kVersion);
  app.add_option("--config", options.config, "daemon YAML file");
  app.add_option("--runtime-dir", options.runtime_dir, "directory of the socket");
  app.add_option("--state-dir", options.state_dir, "directory of the checkpoint store");
  app.add_option("--devices", options.devices, "number of devices")->check(CLI::Range(1, 8));
  app.add_option("--engine-threads", options.engine_threads, "engine threads, 0 = one a core")
      ->check(CLI::Range(0, 8));
  app.add_flag("--launcher-only", options.launcher_only,
               "serve the process that started this one: SIGTERM lets its runs end first");
  app.add_flag("--check-config", options.check_config,
               "say what is wrong with --config FILE and end: exit 0 if it is good, 78 if not");
  app.add_flag("--foreground", options.foreground,
               "stay in the foreground (always so; accepted for scripts)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    (void)app.exit(e);
    return static_cast<int>(Exit::kUsage);
  }
  if (const auto armed = npu::failpoint::arm_from_environment(); !armed) {
    return report(armed.error());
  }
  block_signals();
  return serve(options);
}
