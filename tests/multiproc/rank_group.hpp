// Runs one function a rank, as threads or as forked processes, against a daemon; collects how each
// ended.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client/api/device.hpp"

namespace npu::test {

using RankFunction = std::function<int(client::Device&)>;  // 0 = as expected

inline client::AttachOptions attach_options(const std::string& socket, uint32_t world,
                                            uint32_t rank, const std::string& run = "test") {
  return {.socket = socket,
          .run = run,
          .run_key = "0123456789abcdef0123456789abcdef",
          .world = world,
          .rank = rank,
          .device = rank,
          .arena_bytes = uint64_t{8} << 20,
          .job_hash = 1,
          .join_timeout = milliseconds(20'000),
          .on_failure = {}};
}

inline int run_rank(const client::AttachOptions& options, const RankFunction& body) {
  auto device = client::Device::attach(options);
  if (!device) {
    std::fprintf(stderr, "rank %u: %s\n", options.rank, device.error().message.c_str());
    return 100;
  }
  const int code = body(**device);
  if (code == 0 && !(*device)->failure()) {
    if (auto left = (*device)->detach(); !left) {
      std::fprintf(stderr, "rank %u: %s\n", options.rank, left.error().message.c_str());
      return 101;
    }
  }
  return code;
}

/// Exit codes by rank; a killed process gives 128 + signal.
inline std::vector<int> run_threads(const std::string& socket, uint32_t world,
                                    const RankFunction& body) {
  std::vector<int> codes(world, -1);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < world; ++r) {
    threads.emplace_back([&, r] { codes[r] = run_rank(attach_options(socket, world, r), body); });
  }
  for (auto& t : threads) t.join();
  return codes;
}

inline std::vector<pid_t> fork_ranks(const std::string& socket, uint32_t world,
                                     const RankFunction& body, const std::string& run = "test") {
  std::vector<pid_t> pids;
  for (uint32_t r = 0; r < world; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run_rank(attach_options(socket, world, r, run), body));
    pids.push_back(pid);
  }
  return pids;
}

inline std::vector<int> wait_ranks(const std::vector<pid_t>& pids) {
  std::vector<int> codes;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace npu::test
