#include "daemon/metrics/run_history.hpp"

#include <algorithm>

namespace npu::daemon {

RunHistories::Entry& RunHistories::touch(int64_t uid, const std::string& name) {
  const std::pair key{uid, name};
  if (entries_.size() >= limit_ && !entries_.contains(key)) {
    entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second.used; }));
  }
  Entry& entry = entries_[key];
  entry.used = ++clock_;
  return entry;
}

void RunHistories::complete(int64_t uid, const std::string& name) {
  Entry& entry = touch(uid, name);
  if (entry.failed) ++entry.history.restarts;
  entry.failed = false;
}

void RunHistories::failed(int64_t uid, const std::string& name) { touch(uid, name).failed = true; }

void RunHistories::checkpoint(int64_t uid, const std::string& name, uint64_t bytes, double unix_time) {
  RunHistory& history = touch(uid, name).history;
  ++history.checkpoints;
  history.last_bytes = bytes;
  if (history.last_success_unix > 0) history.interval_s = std::max(0.0, unix_time - history.last_success_unix);
  history.last_success_unix = unix_time;
}

void RunHistories::checkpoint_failed(int64_t uid, const std::string& name) {
  ++touch(uid, name).history.failed_checkpoints;
}

RunHistory RunHistories::find(int64_t uid, const std::string& name) const {
  const auto found = entries_.find({uid, name});
  return found == entries_.end() ? RunHistory{} : found->second.history;
}

}  // namespace npu::daemon
