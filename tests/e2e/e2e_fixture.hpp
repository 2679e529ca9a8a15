// Fixture of the end-to-end tests: a small job, its events, a launch in the background, and the
// check after each test that no process and no private daemon's directory is left.
#pragma once

#include <poll.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client/launch/child.hpp"
#include "client/render/events.hpp"
#include "shm/base/clock.hpp"
#include "tests/cli/cli_fixture.hpp"

namespace npu::e2e {

using cli::Outcome;

/// What could be read; a process may end while its file in /proc is read.
inline std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

/// True when no such process runs; one that only waits to be reaped has ended.
inline bool gone(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const size_t state = stat.rfind(") ");
  return state == std::string::npos || stat[state + 2] == 'Z' || stat[state + 2] == 'X';
}

/// Running processes whose command line has `text` in it, the calling one not counted.
inline std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (pid == ::getpid() || gone(pid)) continue;
    if (contents(entry.path().string() + "/cmdline").find(text) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

/// Children of a process with this word in their command line.
inline std::vector<pid_t> children_of(pid_t parent, const std::string& word) {
  std::vector<pid_t> pids;
  const std::string name = std::to_string(parent);
  std::istringstream list(contents("/proc/" + name + "/task/" + name + "/children"));
  for (pid_t child = 0; list >> child;) {
    const std::string line = contents("/proc/" + std::to_string(child) + "/cmdline");
    if (line.find(word) != std::string::npos) pids.push_back(child);
  }
  return pids;
}

/// Asks every 5 ms until `condition` holds; false when it does not within `limit`.
template <typename Condition>
bool holds_within(milliseconds limit, const Condition& condition) {
  const auto end = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Events of `-o json`; a line that is not one fails the test.
inline std::vector<client::Event> events_of(const std::string& text) {
  std::vector<client::Event> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto event = client::event_from_json(line);
    EXPECT_TRUE(event) << line;
    if (event) events.push_back(std::move(*event));
  }
  return events;
}

/// The last event of this kind, nothing when there is none.
template <typename Wanted>
std::optional<Wanted> last(const std::vector<client::Event>& events) {
  for (size_t i = events.size(); i-- > 0;) {
    if (const auto* found = std::get_if<Wanted>(&events[i])) return *found;
  }
  return std::nullopt;
}

class E2eTest : public cli::CliTest {
 protected:
  void TearDown() override {
    EXPECT_TRUE(holds_within(milliseconds(2000), [&] { return processes_with(root_).empty(); }))
        << "a process of the test is left, pid " << processes_with(root_).front();
    EXPECT_EQ(private_dirs(), 0u);
  }

  [[nodiscard]] size_t private_dirs() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      count += entry.path().filename().string().starts_with("npu-private-") ? 1u : 0u;
    }
    return count;
  }

  /// 256 images of 16x16x1 make 8 steps an epoch; 100 validation images divide by no 8 ranks.
  std::string job(const std::string& name = "tiny") {
    return file(name + ".yaml",
                "name: " + name +
                    "\ndevices: 0-3\nseed: 7\n"
                    "model: {arch: resnet8, num_classes: 10}\n"
                    "data: {format: synthetic, train_samples: 256, val_samples: 100, "
                    "image_size: 16, channels: 1, augment: cifar, workers: 1}\n"
                    "train: {epochs: 2, batch_size: 32, print_freq: 1}\n"
                    "optimizer: {lr: 0.05}\n"
                    "checkpoint: {every_epochs: 1}\n");
  }

  /// `npu launch JOB -o json --set ...` to its end.
  Outcome launch(const std::vector<std::string>& sets, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"launch", job(), "-o", "json"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    args.insert(args.end(), more.begin(), more.end());
    return npu(args);
  }

  /// The `done` record of a launch that has to end well.
  client::DoneEvent done(const std::vector<std::string>& sets) {
    const Outcome got = launch(sets);
    EXPECT_EQ(got.code, 0) << got.err;
    const auto events = events_of(got.out);
    if (events.empty()) return {};
    const auto* end = std::get_if<client::DoneEvent>(&events.back());
    EXPECT_NE(end, nullptr) << "the last line is no done record";
    return end != nullptr ? *end : client::DoneEvent{};
  }

  /// From here on `npu` finds this daemon instead of starting one.
  void use_daemon(const std::string& socket) {
    std::erase_if(env_, [](const std::string& entry) { return entry.starts_with("NPUD_SOCKET="); });
    env_.push_back("NPUD_SOCKET=" + socket);
  }
};

/// A launch that runs while the test goes on; stdout is read as it comes, stderr kept in a file.
class Background {
 public:
  Background(const std::vector<std::string>& env, const std::string& job,
             const std::vector<std::string>& sets, const std::vector<std::string>& more = {})
      : pipe_(std::move(*client::make_pipe())), err_(::memfd_create("err", MFD_CLOEXEC)) {
    client::ChildSpec spec{
        .path = NPU_PATH, .env = env, .stdout_fd = pipe_.write_end.get(), .stderr_fd = err_.get()};
    spec.argv = {"npu", "launch", job, "-o", "json"};
    for (const std::string& set : sets) spec.argv.insert(spec.argv.end(), {"--set", set});
    spec.argv.insert(spec.argv.end(), more.begin(), more.end());
    auto started = client::Child::start(spec);
    EXPECT_TRUE(started);
    child_.emplace(std::move(*started));
    pipe_.write_end.reset();
  }

  /// Reads on until `text` came by, the other end is closed or 30 s passed without a byte.
  std::string read_until(const std::string& text) {
    std::string all;
    char piece[4096];
    pollfd ready{pipe_.read_end.get(), POLLIN, 0};
    while (all.find(text) == std::string::npos && ::poll(&ready, 1, 30'000) == 1) {
      const ssize_t n = ::read(pipe_.read_end.get(), piece, sizeof piece);
      if (n <= 0) break;
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }

  /// Children of the launcher with this word in their command line: "train" or "npud".
  std::vector<pid_t> children(const std::string& word) { return children_of(pid(), word); }

  [[nodiscard]] pid_t pid() const { return child_->pid(); }
  int wait() { return child_->wait().code(); }
  [[nodiscard]] bool running() { return child_->alive() && !child_->poll(); }
  void kill(int signal) { ::kill(child_->pid(), signal); }

  std::string err() const {
    std::string all(static_cast<size_t>(::lseek(err_.get(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(err_.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  client::Pipe pipe_;
  UniqueFd err_;
  std::optional<client::Child> child_;
};

}  // namespace npu::e2e
