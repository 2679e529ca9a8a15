#include "client/launch/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/launch/cores.hpp"

namespace npu::client {
namespace {

constexpr int kLastClassicSignal = 31;  // above are glibc's own and the real-time signals

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

struct ExecPlan {
  const ChildSpec& spec;
  char* const* argv;
  char* const* envp;
  pid_t parent;
  int null_fd;
  int report_fd;  // close-on-exec: end of file means that exec succeeded
};

[[noreturn]] void give_up(const ExecPlan& plan) noexcept {
  const int err = errno;
  [[maybe_unused]] const ssize_t n = ::write(plan.report_fd, &err, sizeof err);
  ::_exit(127);
}

// Between fork and exec: async-signal-safe calls only, no allocation.
[[noreturn]] void become(const ExecPlan& plan) noexcept {
  if (::prctl(PR_SET_PDEATHSIG, plan.spec.death_signal) != 0) give_up(plan);
  if (::getppid() != plan.parent) ::_exit(127);  // it died before the line above took effect
  if (::setpgid(0, 0) != 0) give_up(plan);       // the terminal's Ctrl-C goes to the launcher alone
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number <= kLastClassicSignal; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(plan.null_fd, STDIN_FILENO) < 0) give_up(plan);
  if (plan.spec.stdout_fd >= 0 && ::dup2(plan.spec.stdout_fd, STDOUT_FILENO) < 0) give_up(plan);
  if (plan.spec.stderr_fd >= 0 && ::dup2(plan.spec.stderr_fd, STDERR_FILENO) < 0) give_up(plan);
  for (const int fd : plan.spec.keep_fds) {
    if (::fcntl(fd, F_SETFD, 0) != 0) give_up(plan);
  }
  if (plan.spec.core >= 0) stay_on(plan.spec.core);
  ::execve(plan.spec.path.c_str(), plan.argv, plan.envp);
  give_up(plan);
}

// errno of the child's failed exec, 0 when it runs.
int exec_result(int report_fd) noexcept {
  int err = 0;
  ssize_t n;
  do {
    n = ::read(report_fd, &err, sizeof err);
  } while (n < 0 && errno == EINTR);
  return n == sizeof err ? err : 0;
}

}  // namespace

std::string describe(const ExitStatus& status) {
  if (!status.by_signal) return fmt::format("exit code {}", status.value);
  const char* name = ::sigabbrev_np(status.value);
  return name != nullptr ? fmt::format("killed by SIG{}", name)
                         : fmt::format("killed by signal {}", status.value);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("create a pipe");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  // Only our end: the flag belongs to the open file, and a child expects its output to block.
  if (::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno("set up a pipe");
  return pipe;
}

Result<Child> Child::start(const ChildSpec& spec) {
  const std::vector<char*> argv = pointers(spec.argv), envp = pointers(spec.env);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return fail_errno("open '/dev/null'");
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return fail_errno("create a pipe");
  const UniqueFd report_read(report[0]);
  UniqueFd report_write(report[1]);
  const ExecPlan plan{spec, argv.data(), envp.data(), ::getpid(), null.get(), report_write.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(fmt::format("start '{}': fork", spec.path));
  if (pid == 0) become(plan);
  report_write.reset();
  // By number: the wrapper of glibc 2.36 is declared without C linkage. Close-on-exec by
  // definition.
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int pidfd_errno = errno;
  const bool have_pidfd = pidfd.valid();
  Child child(pid, std::move(pidfd));
  if (const int err = exec_result(report_read.get()); err != 0) {
    return fail_errno(err, fmt::format("start '{}'", spec.path));
  }
  if (!have_pidfd) return fail_errno(pidfd_errno, fmt::format("watch '{}': pidfd_open", spec.path));
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Child::~Child() {
  if (!alive()) return;
  signal(SIGKILL);
  wait();
}

void Child::signal(int number) noexcept {
  if (!alive()) return;
  // The leader by pid as well: a child that is between fork and setpgid has no group yet.
  if (::kill(-pid_, number) != 0) ::kill(pid_, number);
  if (number == SIGTERM) ::kill(-pid_, SIGCONT);
}

std::optional<ExitStatus> Child::poll() noexcept { return status_ ? status_ : reap(WNOHANG); }

ExitStatus Child::wait() noexcept {
  while (!status_) reap(0);
  return *status_;
}

std::optional<ExitStatus> Child::reap(int flags) noexcept {
  if (pid_ <= 0) return std::nullopt;
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  if (::waitid(P_PID, id, &info, WEXITED | WNOWAIT | flags) != 0) {
    // ECHILD: somebody set SIGCHLD to be ignored and the kernel reaped it; how it ended is lost.
    if (errno == ECHILD) status_ = ExitStatus{.by_signal = false, .value = 70};
    return status_;
  }
  if (info.si_pid == 0) return std::nullopt;
  ::kill(-pid_, SIGKILL);  // what it left behind, while the group's number is still ours
  ::waitid(P_PID, id, &info, WEXITED);
  const bool by_signal = info.si_code != CLD_EXITED;
  status_ = ExitStatus{.by_signal = by_signal, .value = info.si_status};
  return status_;
}

}  // namespace npu::client
