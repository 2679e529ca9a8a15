#include "client/train/resume_policy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::client {
namespace {

using config::Job;
using config::Setting;

tl::unexpected<Error> differs(const std::string& path, std::string_view key, const auto& theirs,
                              const auto& ours) {
  return fail(Code::kFailedPrecondition,
              "resume from '{}': its {} is {}, the job's is {}; restore the job's value, change "
              "the job's name, or set checkpoint.resume=never",
              path, key, theirs, ours);
}

const std::string* value_of(const std::vector<Setting>& all, std::string_view key) {
  const auto found = std::ranges::find(all, key, &Setting::key);
  return found == all.end() ? nullptr : &found->value;
}

/// The word of checkpoint.resume_override that a key belongs to; empty if the job may change it
/// anyway.
std::string_view override_word(std::string_view key) {
  if (key == "optimizer.lr") return "lr";
  if (key == "train.epochs") return "epochs";
  return key.starts_with("schedule.") ? "schedule" : "";
}

void add_difference(const Setting& file, const std::string& ours, const Job& job,
                    ResumePlan& plan) {
  const std::string change = fmt::format("{} {} -> {}", file.key, file.value, ours);
  const std::string word(override_word(file.key));
  if (word.empty()) {
    plan.notes.push_back(change + " (the job's, from here on)");
  } else if (std::ranges::find(job.checkpoint.resume_override, word) !=
             job.checkpoint.resume_override.end()) {
    plan.notes.push_back(change + " (checkpoint.resume_override)");
  } else {
    plan.adopted.push_back(file);
    plan.warnings.push_back(
        fmt::format("{} (ignored; checkpoint.resume_override: [{}] applies it)", change, word));
  }
}

void compare_settings(const CheckpointIdentity& file, const Job& job, ResumePlan& plan) {
  if (file.settings.empty()) {
    plan.warnings.push_back(
        "the checkpoint is of an earlier version and does not say how it was trained; learning "
        "rate, schedule and epochs are the job's");
    return;
  }
  for (const Setting& ours : config::settings(job)) {
    const std::string* theirs = value_of(file.settings, ours.key);
    // Amp and the loss scale have rules and words of their own (loss_scale.hpp).
    const bool scaling = ours.key.starts_with("precision.") && ours.key != "precision.dtype";
    if (theirs == nullptr || *theirs == ours.value || scaling) continue;
    add_difference({ours.key, *theirs}, ours.value, job, plan);
  }
}

}  // namespace

Result<void> check_evaluation(const CheckpointIdentity& file, const Job& job,
                              const std::string& path) {
  if (file.arch != job.model.arch) return differs(path, "model.arch", file.arch, job.model.arch);
  if (file.num_classes != job.model.num_classes) {
    return differs(path, "model.num_classes", file.num_classes, job.model.num_classes);
  }
  return {};
}

Result<ResumePlan> plan_resume(const CheckpointIdentity& file, const Job& job,
                               const std::string& path) {
  NPU_TRY_VOID(check_evaluation(file, job, path));
  if (file.global_batch != job.train.batch_size) {
    return differs(path, "train.batch_size", file.global_batch, job.train.batch_size);
  }
  if (file.seed != job.seed) return differs(path, "seed", file.seed, job.seed);
  // The momentum of the one has the learning rate in it, the other's has not.
  const std::string profile = job.profile == config::Profile::kTf ? "tf" : "pytorch";
  if (const std::string* theirs = value_of(file.settings, "profile");
      theirs != nullptr && *theirs != profile) {
    return differs(path, "profile", *theirs, profile);
  }
  ResumePlan plan;
  compare_settings(file, job, plan);
  if (file.world != job.world()) {
    plan.warnings.push_back(fmt::format(
        "trained on {} ranks, going on with {}: steps see the same images, batch norm sees {} of "
        "them together instead of {}",
        file.world, job.world(), job.rank_batch(),
        file.global_batch / std::max(file.world * job.train.accumulate, 1)));
  }
  return plan;
}

void apply_start_epoch(const Job& job, std::optional<int64_t> file_start_epoch, TrainState& state) {
  const auto& wanted = job.train.start_epoch;
  if (!wanted || wanted == file_start_epoch) return;
  state.next_epoch = static_cast<int>(*wanted);
  state.step_in_epoch = 0;
  state.sums = {};
}

std::string finished_note(const Job& job, const TrainState& state) {
  if (state.next_epoch >= job.train.epochs) {
    return fmt::format(
        "job '{}' is finished: its {} epochs are trained; to train longer raise train.epochs and "
        "set checkpoint.resume_override: [epochs], to start over set checkpoint.resume: never",
        job.name, state.next_epoch);
  }
  const double target = job.train.target_acc1;
  if (target > 0 && state.best_acc1 >= target) {
    return fmt::format(
        "job '{}' is finished: it reached train.target_acc1 {:g} % in epoch {} ({:.3f} %); raise "
        "it to train longer",
        job.name, target, state.best_epoch, state.best_acc1);
  }
  return {};
}

std::string settings_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& s : settings) text += s.key + "=" + s.value + "\n";
  return text;
}

std::vector<Setting> settings_of_text(std::string_view text) {
  std::vector<Setting> settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    settings.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
  }
  return settings;
}

}  // namespace npu::client
