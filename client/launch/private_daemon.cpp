#include "client/launch/private_daemon.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace npu::client {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "npu-private-";
constexpr milliseconds kProbeEvery{5};

std::string env_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : otherwise;
}

// The user's runtime directory, or /tmp: short, because a socket's path holds 107 characters.
std::string runtime_parent() {
  const std::string dir = env_or("XDG_RUNTIME_DIR", "/tmp");
  return ::access(dir.c_str(), W_OK | X_OK) == 0 && dir.size() < 64 ? dir : "/tmp";
}

// Runtime directories of this user, live or left behind.
std::vector<std::string> private_dirs() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(runtime_parent(), ignored)) {
    const std::string path = entry.path();
    struct stat st {};
    if (entry.path().filename().string().starts_with(kPrefix) && ::lstat(path.c_str(), &st) == 0 &&
        S_ISDIR(st.st_mode) && st.st_uid == ::getuid()) {
      found.push_back(path);
    }
  }
  return found;
}

// Directories whose launcher and daemon are both gone: nobody holds the lock in them.
void remove_stale() {
  std::error_code ignored;
  for (const std::string& path : private_dirs()) {
    const UniqueFd lock(::open((path + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
  }
}

bool takes_connections(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // The daemon's socket keeps message borders; a stream socket is refused with EPROTOTYPE but
  // proves as much.
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return fd.valid() &&
         (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
          errno == EPROTOTYPE);
}

std::vector<std::string> daemon_environment() {
  std::vector<std::string> out;
  bool has_log = false;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    // systemd's variables of a surrounding service are not this daemon's.
    if (text.starts_with("NOTIFY_SOCKET=") || text.starts_with("LISTEN_") ||
        text.starts_with("WATCHDOG_"))
      continue;
    has_log = has_log || text.starts_with("NPU_LOG=");
    out.emplace_back(text);
  }
  if (!has_log)
    out.emplace_back("NPU_LOG=error");  // what ends a run is in the report of the launcher
  return out;
}

}  // namespace

std::string default_state_dir() {
  if (const std::string dir = env_or("XDG_STATE_HOME", ""); !dir.empty()) return dir + "/npud";
  if (const std::string home = env_or("HOME", ""); !home.empty())
    return home + "/.local/state/npud";
  return fmt::format("/tmp/npud-{}/state", ::getuid());
}

std::vector<PrivateInstance> live_private_daemons() {
  std::vector<PrivateInstance> live;
  for (const std::string& dir : private_dirs()) {
    std::error_code error;
    const fs::path state = fs::read_symlink(dir + "/state", error);
    if (!error && takes_connections(dir + "/npud.sock"))
      live.push_back({dir + "/npud.sock", state});
  }
  return live;
}

Result<std::string> find_npud() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string beside = (self.parent_path() / "npud").string();
  if (!error && ::access(beside.c_str(), X_OK) == 0) return beside;
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, colon)) + "/npud";
    if (candidate.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return fail_exit(Code::kNotFound, Exit::kNoDaemon,
                   "start a private daemon: no npud at '{}' nor in PATH; install it or start one "
                   "and pass --socket",
                   beside);
}

Result<std::unique_ptr<PrivateDaemon>> PrivateDaemon::start(const PrivateDaemonOptions& options) {
  std::string npud = options.npud;
  if (npud.empty()) {
    NPU_TRY(npud, find_npud());
  }
  const std::string state_dir =
      options.state_dir.empty() ? default_state_dir() : fs::absolute(options.state_dir).string();
  std::unique_ptr<PrivateDaemon> daemon(new PrivateDaemon(options, state_dir));
  NPU_TRY_VOID(daemon->make_runtime_dir());
  daemon->npud_ = npud;
  NPU_TRY_VOID(daemon->spawn(npud));
  NPU_TRY_VOID(daemon->wait_until_ready());
  return daemon;
}

PrivateDaemon::~PrivateDaemon() {
  stop();
  if (runtime_dir_.empty()) return;
  std::error_code ignored;
  fs::remove_all(runtime_dir_, ignored);
}

Result<void> PrivateDaemon::make_runtime_dir() {
  const std::string parent = runtime_parent();
  remove_stale();
  std::string name = parent + "/" + kPrefix + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    return fail_errno(fmt::format("create a directory in '{}'", parent));
  runtime_dir_ = name;
  // Locked before it gets its name, so that nobody ever finds it free while we live.
  const std::string lock = runtime_dir_ + "/lock", unlocked = lock + ".new";
  lock_.reset(::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock_.valid() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), lock.c_str()) != 0) {
    return fail_errno(fmt::format("lock '{}'", runtime_dir_));
  }
  std::error_code error;
  fs::create_directories(state_dir_, error);
  if (error)
    return fail_errno(error.value(), fmt::format("create the state directory '{}'", state_dir_));
  fs::create_symlink(state_dir_, runtime_dir_ + "/state", error);  // for live_private_daemons
  return {};
}

Result<void> PrivateDaemon::spawn(const std::string& npud) {
  ChildSpec spec{
      .path = npud,
      .argv = {"npud", "--runtime-dir", runtime_dir_, "--state-dir", state_dir_, "--launcher-only"},
      .env = daemon_environment(),
      .death_signal = SIGTERM};
  spec.stdout_fd = STDERR_FILENO;  // stdout is data
  spec.keep_fds = {lock_.get()};
  NPU_TRY(Child child, Child::start(spec));
  child_.emplace(std::move(child));
  started_ = Clock::now();
  return {};
}

bool PrivateDaemon::respawn(bool was_of_use) noexcept {
  constexpr milliseconds kShortLife{500};
  const bool in_vain = !was_of_use && Clock::now() - started_ < kShortLife;
  short_lives_ = in_vain ? short_lives_ + 1 : 0;
  return short_lives_ < kMostShortLives && spawn(npud_).has_value();
}

Result<void> PrivateDaemon::wait_until_ready() {
  const Deadline deadline = Deadline::after(options_.ready_limit);
  while (!takes_connections(socket())) {
    pollfd fds[2] = {{child_->pidfd(), POLLIN, 0},
                     {options_.signals != nullptr ? options_.signals->fd() : -1, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(kProbeEvery.count()));
    if (const auto status = child_->poll()) {
      // A state directory that cannot be written is no missing daemon: its code is passed through.
      const bool said_why = !status->by_signal && status->value >= static_cast<int>(Exit::kUsage) &&
                            status->value <= static_cast<int>(Exit::kBadConfig);
      return fail_exit(
          Code::kUnavailable, said_why ? static_cast<Exit>(status->value) : Exit::kNoDaemon,
          "start a private daemon: npud ended while it started ({}); its message is above",
          describe(*status));
    }
    if (fds[1].revents != 0) {
      const StopSignal signal = options_.signals->next();
      if (signal && signal.number != SIGTSTP) {
        Error error{Code::kAborted,
                    fmt::format("stopped by {} while npud was starting", signal.text()),
                    Exit::kInternal};
        error.exit = static_cast<Exit>(128 + signal.number);
        return tl::make_unexpected(std::move(error));
      }
    }
    if (deadline.passed()) {
      return fail(Code::kDeadlineExceeded,
                  "start a private daemon: '{}' took no connection within {} ms", socket(),
                  options_.ready_limit.count());
    }
  }
  return {};
}

void PrivateDaemon::stop() noexcept {
  if (!child_ || !child_->alive()) return;
  child_->signal(SIGTERM);
  const Deadline deadline = Deadline::after(options_.stop_grace);
  while (!child_->poll() && !deadline.passed()) {
    pollfd fds[2] = {{child_->pidfd(), POLLIN, 0},
                     {options_.signals != nullptr ? options_.signals->fd() : -1, POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(deadline.remaining(options_.stop_grace));
    ::poll(fds, 2, static_cast<int>(left.count()));
    if (fds[1].revents != 0 && options_.signals->next().number != SIGTSTP)
      break;  // no more patience
  }
  if (child_->poll()) return;
  child_->signal(SIGKILL);
  child_->wait();
}

}  // namespace npu::client
