// What a run's name has gone through over its generations: restarts and checkpoints. A restarted run goes on counting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace npu::daemon {

struct RunHistory {
  uint64_t restarts = 0;  // generations that became complete after one that failed
  uint64_t checkpoints = 0, failed_checkpoints = 0;
  uint64_t last_bytes = 0;
  double last_success_unix = 0;  // 0: none yet
  double interval_s = 0;         // between the last two successes; 0: there were not two
};

/// Thread: one. Bounded: the name that was not used for longest is forgotten.
class RunHistories {
 public:
  explicit RunHistories(size_t limit = 256) : limit_(limit) {}

  void complete(int64_t uid, const std::string& name);
  void failed(int64_t uid, const std::string& name);
  void checkpoint(int64_t uid, const std::string& name, uint64_t bytes, double unix_time);
  void checkpoint_failed(int64_t uid, const std::string& name);

  [[nodiscard]] RunHistory find(int64_t uid, const std::string& name) const;
  [[nodiscard]] size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    RunHistory history;
    bool failed = false;  // its last generation
    uint64_t used = 0;
  };
  [[nodiscard]] Entry& touch(int64_t uid, const std::string& name);

  size_t limit_;
  uint64_t clock_ = 0;
  std::map<std::pair<int64_t, std::string>, Entry> entries_;
};

}  // namespace npu::daemon
