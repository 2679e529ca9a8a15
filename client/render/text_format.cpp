#include "client/render/text_format.hpp"

#include <fmt/format.h>

#include "shm/base/units.hpp"

namespace npu::client {
namespace {

// "[  7/235]": right-aligned to the width of the total.
std::string counter(int64_t i, int64_t total) {
  return fmt::format("[{:>{}}/{}]", i, fmt::formatted_size("{}", total), total);
}

std::string loss_and_accuracy(const auto& e) {
  return fmt::format("Loss {:.4e} ({:.4e})\tAcc@1 {:6.2f} ({:6.2f})\tAcc@5 {:6.2f} ({:6.2f})",
                     e.loss, e.loss_avg, e.acc1, e.acc1_avg, e.acc5, e.acc5_avg);
}

// main.py's summary line, word for word.
std::string accuracy_line(double acc1, double acc5) {
  return fmt::format(" *   Acc@1 {:.3f} Acc@5 {:.3f}", acc1, acc5);
}
std::string ema_accuracy_line(double acc1, double acc5) {
  return fmt::format(" *   EMA Acc@1 {:.3f} Acc@5 {:.3f}", acc1, acc5);
}

std::string count_of_parameters(uint64_t n) {
  return n >= 1'000'000 ? fmt::format("{:.2f} M params", static_cast<double>(n) / 1e6)
                        : fmt::format("{:.1f} k params", static_cast<double>(n) / 1e3);
}

}  // namespace

std::string format_ids(const std::vector<int>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size();) {
    size_t last = i;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", ids[i]);
    if (last > i) text += fmt::format("-{}", ids[last]);
    i = last + 1;
  }
  return text;
}

std::string format_start(const StartEvent& s) {
  const std::string mode = s.world == 1 ? fmt::format("single: device {}", format_ids(s.devices))
                                        : fmt::format("distributed: {} ranks on devices {}",
                                                      s.world, format_ids(s.devices));
  std::string text = fmt::format("run '{}'   arch {} ({})   precision {}   {}\n", s.run, s.arch,
                                 count_of_parameters(s.parameters), s.precision, mode);
  text += fmt::format(
      "global batch {} ({} x {})   {} steps/epoch   {} epochs   lr {:g} {}   seed {}\n",
      s.global_batch, s.world, s.rank_batch, s.steps_per_epoch, s.epochs, s.lr, s.schedule, s.seed);
  text += fmt::format("data {}   all-reduce {}   daemon {}", s.data, s.algorithm, s.daemon);
  if (s.resumed_step) {
    text += fmt::format("\nresumed from {}, next step {}", s.resumed_from.value_or("a checkpoint"),
                        *s.resumed_step);
  }
  if (s.pretrained) text += fmt::format("\nusing pre-trained model '{}'", *s.pretrained);
  for (const std::string& note : s.notes) text += "\n" + note;
  for (const std::string& warning : s.warnings) text += "\nwarning: " + warning;
  return text;
}

std::string format_step(const StepEvent& e) {
  std::string text =
      fmt::format("Epoch: [{}]{}\tTime {:6.3f} ({:6.3f})\tData {:6.3f} ({:6.3f})\t{}\tLr {:.4g}",
                  e.epoch, counter(e.step_in_epoch, e.steps_per_epoch), e.batch_s, e.batch_avg_s,
                  e.data_s, e.data_avg_s, loss_and_accuracy(e), e.lr);
  if (e.scale != 1.0) text += fmt::format("\tScale {}", e.scale);
  return text + fmt::format("\tImg/s {:.0f}", e.img_s);
}

std::string format_val_step(const ValStepEvent& e) {
  return fmt::format("Test: {}\tTime {:6.3f} ({:6.3f})\t{}",
                     counter(e.step_in_epoch, e.steps_per_epoch), e.batch_s, e.batch_avg_s,
                     loss_and_accuracy(e));
}

std::string format_epoch(const EpochEvent& e) {
  std::string text;
  if (e.val_samples > 0) text = accuracy_line(e.val_acc1, e.val_acc5) + "\n";
  if (e.val_ema_acc1 && e.val_ema_acc5) {
    text += ema_accuracy_line(*e.val_ema_acc1, *e.val_ema_acc5) + "\n";
  }
  text += fmt::format("epoch {} done in {:.1f} s   {:.0f} img/s   train loss {:.4f} acc {:.2f}",
                      e.epoch, e.seconds, e.img_s, e.train_loss, e.train_acc1);
  return e.best ? text + "   best" : text;
}

std::string format_eval(const EvalEvent& e) {
  std::string text = accuracy_line(e.acc1, e.acc5);
  if (e.ema_acc1 && e.ema_acc5) {
    text += '\n';
    text += ema_accuracy_line(*e.ema_acc1, *e.ema_acc5);
  }
  return text;
}

std::string format_overflow(const OverflowEvent& e) {
  return fmt::format("step {}: non-finite gradient; step skipped, loss scale is now {}", e.step,
                     e.scale);
}

std::string format_checkpoint(const CheckpointEvent& e) {
  return fmt::format("checkpoint step {} -> {} ({}, stall {:.0f} ms, durable after {:.0f} ms){}",
                     e.step, e.path, format_bytes(e.bytes), e.stall_ms, e.durable_ms,
                     e.best ? "   best" : "");
}

std::string format_restart(const RestartEvent& e) {
  return fmt::format("restart {} from step {}: {}", e.attempt, e.step, e.reason);
}

std::string format_done(const DoneEvent& e) {
  std::string text =
      fmt::format("done: {} epochs, {} steps ({} skipped) in {:.1f} s, {:.0f} images/s\n", e.epochs,
                  e.steps, e.skipped_steps, e.seconds, e.img_s);
  if (!e.note.empty()) text = e.note + "\n" + text;
  if (e.best_epoch >= 0) {
    text += fmt::format("accuracy    {:.3f} % (best {:.3f} % in epoch {})", e.acc1, e.best_acc1,
                        e.best_epoch);
  } else {
    text += "accuracy    not measured, no epoch was completed";
  }
  if (e.bad_images > 0) text += fmt::format("\nimages      {} times unreadable", e.bad_images);
  text += fmt::format("\ncheckpoint  {}", e.checkpoint.empty() ? "none" : e.checkpoint);
  if (e.verified) text += *e.verified ? "   verified" : "   NOT VERIFIED";
  if (!e.best_checkpoint.empty()) text += fmt::format("\nbest        {}", e.best_checkpoint);
  return text + fmt::format("\nweights     {}", e.weights_digest);
}

}  // namespace npu::client
