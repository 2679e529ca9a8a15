// Writes what a job tells into its run folder: curves, numbers, records, a summary.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/record/append_file.hpp"
#include "client/record/tensorboard_file.hpp"
#include "client/render/events.hpp"

namespace npu::client {

struct RecorderOptions {
  std::string folder;  // of the run, made when the run starts; empty: nothing is written
  bool tensorboard = false;
  std::function<double()> now;                   // seconds since 1970
  std::function<void(const std::string&)> warn;  // called once at most
};

/// An EventSink of the launcher. Nothing is written before the start record: a job that is refused
/// leaves no folder. Invariant: the first failure is one warning, and the last thing it does.
/// Thread: one at a time. Cost: a few us and a write a step.
class Recorder : public EventSink {
 public:
  explicit Recorder(RecorderOptions options);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void on_event(const Event& event) override;

 private:
  struct Files;

  [[nodiscard]] Result<void> record(const Event& event);
  [[nodiscard]] Result<void> start(const StartEvent& event);
  [[nodiscard]] Result<void> step(const StepEvent& event);
  [[nodiscard]] Result<void> epoch(const EpochEvent& event);
  [[nodiscard]] Result<void> summary(const char* state, const Event& last);
  [[nodiscard]] Result<void> flush();
  void fail_once(const Error& error);

  RecorderOptions options_;
  std::unique_ptr<Files> files_;  // none before the start and after a failure
  StartEvent start_;
  std::optional<EpochEvent> epoch_;
  int64_t last_step_ = 0;
  int restarts_ = 0;  // of this launch
  double flushed_at_ = 0;
  bool broken_ = false;
};

}  // namespace npu::client
