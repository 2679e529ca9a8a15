#include "tests/support/daemon_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "client/api/admin.hpp"

namespace npu::test {

std::string program(const std::string& name) {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof(self) - 1);
  std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
  return path.substr(0, path.rfind('/') + 1) + name;
}

DaemonProcess::DaemonProcess(std::vector<std::string> extra_args,
                             std::vector<std::string> environment)
    : environment_(std::move(environment)) {
  socket_ = dir_.path() + "/run/npud.sock";
  args_ = {program("npud"), "--runtime-dir", dir_.path() + "/run", "--foreground"};
  if (std::ranges::find(extra_args, "--state-dir") == extra_args.end()) {
    args_.insert(args_.end(), {"--state-dir", state_dir()});
  }
  args_.insert(args_.end(), extra_args.begin(), extra_args.end());
  start();
}

void DaemonProcess::spawn() {
  std::vector<char*> argv;
  for (std::string& a : args_) argv.push_back(a.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::string& variable : environment_) ::putenv(variable.data());
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

void DaemonProcess::start() {
  spawn();
  for (int i = 0; i < 1000; ++i) {
    if (client::find_daemon(socket_)) return;
    ::poll(nullptr, 0, 10);
  }
  std::fprintf(stderr, "npud did not start\n");
  std::abort();
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) stop(SIGKILL);
}

int DaemonProcess::stop(int signal) {
  int status = 0;
  ::kill(pid_, signal);
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

uint64_t DaemonProcess::cpu_us() const {
  std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string field;
  uint64_t ticks = 0;
  for (int i = 3; i <= 15 && rest >> field; ++i) {
    if (i >= 14) ticks += std::stoull(field);
  }
  return ticks * 1'000'000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
}

}  // namespace npu::test
