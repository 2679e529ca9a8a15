#include "shm/progress_client.hpp"

#include <bit>

#include "shm/messages.hpp"

namespace npu::shm {
namespace {

void put(std::atomic<uint64_t>& field, double value) noexcept {
  field.store(std::bit_cast<uint64_t>(value), std::memory_order_relaxed);
}

/// The only writer needs no locked addition.
void add(std::atomic<uint64_t>& counter, uint64_t more) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

void publish(std::atomic<uint64_t>& count) noexcept {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

void report_step(TrainingProgress& progress, const StepReport& step) noexcept {
  TrainingNumbers& n = progress.numbers;
  n.epoch.store(step.epoch, std::memory_order_relaxed);
  put(n.loss, step.loss);
  put(n.top1, step.top1);
  put(n.top5, step.top5);
  put(n.learning_rate, step.learning_rate);
  put(n.loss_scale, step.loss_scale);
  add(n.skipped, step.skipped ? 1 : 0);
  add(n.samples, step.samples);
  put(n.data_wait_s, std::bit_cast<double>(n.data_wait_s.load(std::memory_order_relaxed)) + step.data_wait_s);
  publish(n.steps);
}

void report_validation(TrainingProgress& progress, double loss, double top1, double top5) noexcept {
  TrainingNumbers& n = progress.numbers;
  put(n.val_loss, loss);
  put(n.val_top1, top1);
  put(n.val_top5, top5);
  publish(n.validations);
}

void describe_training(TrainingProgress& progress, std::string_view arch, std::string_view precision) noexcept {
  put_text(progress.text.arch, arch);
  put_text(progress.text.precision, precision);
  progress.text.written.store(1, std::memory_order_release);
}

}  // namespace npu::shm
