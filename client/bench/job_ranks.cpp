#include "client/bench/job_ranks.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <vector>

#include "client/launch/cores.hpp"

namespace npu::client {
namespace {

class Silence final : public EventSink {
 public:
  void on_event(const Event& /*event*/) override {}
};

[[noreturn]] void run_child(const config::Job& job, const RankOptions& options, const char* name) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Silence silence;
  const auto done = run_rank(job, options, silence);
  if (!done) {
    std::fprintf(stderr, "%s: rank %d: %s\n", name, options.rank, done.error().message.c_str());
  }
  std::fflush(stderr);
  ::_exit(done ? 0 : static_cast<int>(done.error().exit));
}

}  // namespace

Result<void> run_job_ranks(const config::Job& job, const std::string& socket, int threads,
                           const char* name, EventSink& watch) {
  const std::vector<int> allowed = allowed_cores(),
                         cores = rank_cores(job.world(), threads, allowed);
  const auto bind = [&cores](int rank) {
    if (const int core = cores[static_cast<size_t>(rank)]; core >= 0) stay_on(core);
  };
  RankOptions options{.socket = socket, .run_key = job.name, .rank = 0, .threads = threads};
  std::vector<pid_t> pids;
  for (int rank = 1; rank < job.world(); ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      options.rank = rank;
      bind(rank);
      run_child(job, options, name);
    }
    if (pid > 0) {
      pids.push_back(pid);
      continue;
    }
    auto failed = fail_errno("start a bench rank");
    for (const pid_t started : pids) {
      ::kill(started, SIGTERM);
      (void)::waitpid(started, nullptr, 0);
    }
    return failed;
  }
  bind(0);
  const auto done = run_rank(job, options, watch);
  stay_on(allowed);
  for (const pid_t pid : pids) {
    if (!done) ::kill(pid, SIGTERM);
    (void)::waitpid(pid, nullptr, 0);
  }
  NPU_TRY_VOID(done);
  return {};
}

}  // namespace npu::client
