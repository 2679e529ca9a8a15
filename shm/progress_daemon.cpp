#include "shm/progress_daemon.hpp"

#include <bit>
#include <string_view>

namespace npu::shm {
namespace {

constexpr std::string_view kSigns = " ._,+/-";

double number(const std::atomic<uint64_t>& field) noexcept {
  return std::bit_cast<double>(field.load(std::memory_order_relaxed));
}

/// The rank may write while this reads: each byte is read once, through volatile, and judged then.
template <size_t N>
std::string plain_text(const char (&field)[N]) {
  const volatile char* from = field;
  std::string text;
  for (size_t i = 0; i < N; ++i) {
    const char c = from[i];
    if (c == '\0') break;
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kSigns.find(c) != std::string_view::npos;
    text += plain ? c : '_';
  }
  return text;
}

}  // namespace

TrainingView read_progress(const TrainingProgress& progress) {
  const TrainingNumbers& n = progress.numbers;
  TrainingView view;
  view.steps = n.steps.load(std::memory_order_acquire);
  view.epoch = n.epoch.load(std::memory_order_relaxed);
  view.loss = number(n.loss);
  view.top1 = number(n.top1);
  view.top5 = number(n.top5);
  view.learning_rate = number(n.learning_rate);
  view.loss_scale = number(n.loss_scale);
  view.skipped = n.skipped.load(std::memory_order_relaxed);
  view.samples = n.samples.load(std::memory_order_relaxed);
  view.data_wait_s = number(n.data_wait_s);
  view.validations = n.validations.load(std::memory_order_acquire);
  view.val_loss = number(n.val_loss);
  view.val_top1 = number(n.val_top1);
  view.val_top5 = number(n.val_top5);
  if (progress.text.written.load(std::memory_order_acquire) == 1) {
    view.arch = plain_text(progress.text.arch);
    view.precision = plain_text(progress.text.precision);
  }
  return view;
}

}  // namespace npu::shm
