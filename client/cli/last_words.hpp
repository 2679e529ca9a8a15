// A rank says why it ends exactly once: either its main thread does, or, when that is deep in a
// step that nobody waits for any more, the thread that learned of the failure does and ends the
// process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "client/render/events.hpp"
#include "shm/base/error.hpp"

namespace npu::cli {

/// The sink of a rank's events, safe to use from two threads, with an end. Thread: any.
class LastWords final : public client::EventSink {
 public:
  /// `to_stderr`: also print the sentence, because no launcher does it for us.
  LastWords(std::unique_ptr<client::EventSink> sink, bool to_stderr);

  void on_event(const client::Event& event) override;
  void set_rank(int rank) noexcept { rank_ = rank; }

  /// Says `error` unless something was said before; returns its exit code.
  int say(const Error& error);

  /// Handler for RankOptions::on_failure: gives the main thread a moment to end by itself, then
  /// speaks for it and ends the process. The moment is well inside the second in which every rank
  /// of a broken run is to be gone, and shorter than SupervisorOptions::settle.
  [[nodiscard]] std::function<void(const Error&)> failure_handler();

 private:
  std::mutex mutex_;
  std::unique_ptr<client::EventSink> sink_;
  const bool to_stderr_;
  std::atomic<int> rank_ = -1;
  bool said_ = false;
};

}  // namespace npu::cli
