#include "client/train/train_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "client/version.hpp"
#include "shm/format/printable.hpp"

namespace npu::client {
namespace {

using nlohmann::json;

constexpr int kStateSchema = 2;
constexpr size_t kMaxSettingBytes = 64 * 1024;  // more than a state.json that we write

// Doubles travel as their bits beside the readable number: a decimal round trip is not worth a
// doubt.
json exact(double value) { return {{"value", value}, {"bits", std::bit_cast<uint64_t>(value)}}; }
double from_exact(const json& j) { return std::bit_cast<double>(j.at("bits").get<uint64_t>()); }

json scaler_to_json(const std::optional<model::GradScalerState>& s) {
  if (!s) return nullptr;
  return {{"dynamic", s->dynamic},
          {"scale", exact(static_cast<double>(s->scale))},
          {"growth_factor", exact(s->growth_factor)},
          {"backoff_factor", exact(s->backoff_factor)},
          {"growth_interval", s->growth_interval},
          {"growth_tracker", s->growth_tracker},
          {"skipped_steps", s->skipped_steps},
          {"consecutive_skips", s->consecutive_skips}};
}

Result<std::optional<model::GradScalerState>> scaler_from_json(const json& j) {
  const auto found = j.find("scaler");  // absent in files of earlier versions
  if (found == j.end() || found->is_null()) return std::optional<model::GradScalerState>();
  model::GradScalerState s;
  s.dynamic = found->at("dynamic").get<bool>();
  s.scale = static_cast<float>(from_exact(found->at("scale")));
  s.growth_factor = from_exact(found->at("growth_factor"));
  s.backoff_factor = from_exact(found->at("backoff_factor"));
  s.growth_interval = found->at("growth_interval").get<int64_t>();
  s.growth_tracker = found->at("growth_tracker").get<int64_t>();
  s.skipped_steps = found->at("skipped_steps").get<int64_t>();
  s.consecutive_skips = found->at("consecutive_skips").get<int64_t>();
  NPU_TRY_VOID(model::check_grad_scaler(s));
  return std::optional(s);
}

/// Settings that decide what is trained; those of the run's place and of what is shown are not.
std::vector<config::Setting> trained_settings(const config::Job& job) {
  constexpr std::array<std::string_view, 4> kSections = {"optimizer.", "schedule.", "precision.",
                                                         "model."};
  constexpr std::array<std::string_view, 13> kKeys = {"profile",
                                                      "data.format",
                                                      "data.augment",
                                                      "data.image_size",
                                                      "data.val_resize",
                                                      "data.mean",
                                                      "data.std",
                                                      "data.label_offset",
                                                      "train.epochs",
                                                      "train.accumulate",
                                                      "train.label_smoothing",
                                                      "train.ema_decay",
                                                      "collectives.allreduce_dtype"};
  std::vector<config::Setting> kept;
  for (config::Setting& s : config::settings(job)) {
    // First weights only: a resumed run does not open the file.
    if (s.key == "model.pretrained" || s.key == "model.ignore_head") continue;
    const bool in_section =
        std::ranges::any_of(kSections, [&](std::string_view p) { return s.key.starts_with(p); });
    if (in_section || std::ranges::find(kKeys, s.key) != kKeys.end()) kept.push_back(std::move(s));
  }
  return kept;
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

json settings_to_json(const std::vector<config::Setting>& settings) {
  json out = json::object();
  for (const config::Setting& s : settings) out[s.key] = s.value;
  return out;
}

Result<std::vector<config::Setting>> settings_from_json(const json& j) {
  std::vector<config::Setting> out;
  for (const auto& [key, value] : j.items()) {
    // They are shown to people and travel as lines.
    const auto text = value.get<std::string>();
    if (text.size() > kMaxSettingBytes || has_control(key) || has_control(text)) {
      return fail(Code::kDataLoss, "read state.json: setting '{}' is no value of a job file",
                  printable(key));
    }
    out.push_back({key, text});
  }
  return out;
}

}  // namespace

CheckpointIdentity identity_of(const config::Job& job, const data::ClassTable& classes) {
  return {.arch = job.model.arch,
          .num_classes = job.model.num_classes,
          .world = job.world(),
          .global_batch = job.train.batch_size,
          .seed = job.seed,
          .amp = job.precision.amp,
          .classes = classes,
          .class_hash = data::class_table_hash(classes),
          .start_epoch = job.train.start_epoch,
          .settings = trained_settings(job)};
}

Result<void> check_class_table(const CheckpointIdentity& file, const CheckpointIdentity& job,
                               const std::string& path) {
  if (file.class_hash.empty() || job.class_hash.empty() || file.class_hash == job.class_hash) {
    return {};
  }
  std::string difference = data::class_table_difference(file.classes, job.classes);
  if (file.classes.empty() || difference.empty()) {
    difference = fmt::format("has hash {}, not {}", job.class_hash, file.class_hash);
  }
  return fail_exit(Code::kFailedPrecondition, Exit::kBadData,
                   "resume from '{}': the data's class table {}, compared with the checkpoint's {} "
                   "classes, so labels would mean something else; restore the folders, change the "
                   "job's name, or set checkpoint.resume=never",
                   path, difference, file.classes.size());
}

namespace {

// Names may hold any byte; what is no UTF-8 is replaced, and the hash tells such tables apart.
std::string as_text(const json& j, int indent) {
  return j.dump(indent, ' ', false, json::error_handler_t::replace);
}

json classes_to_json(const data::ClassTable& classes) {
  json names = classes;
  if (as_text(names, 1).size() > kMaxClassTableBytes) return nullptr;
  return names;
}

}  // namespace

std::string state_to_json(const TrainState& s, const CheckpointIdentity& id) {
  const json j = {{"schema", kStateSchema},
                  {"version", kVersion},
                  {"arch", id.arch},
                  {"num_classes", id.num_classes},
                  {"world", id.world},
                  {"global_batch", id.global_batch},
                  {"seed", id.seed},
                  {"next_epoch", s.next_epoch},
                  {"step_in_epoch", s.step_in_epoch},
                  {"global_step", s.global_step},
                  {"epoch_loss_sum", exact(s.sums.loss)},
                  {"epoch_top1", exact(s.sums.top1)},
                  {"epoch_top5", exact(s.sums.top5)},
                  {"epoch_samples", s.sums.samples},
                  {"best_acc1", exact(s.best_acc1)},
                  {"best_epoch", s.best_epoch},
                  {"last_acc1", exact(s.last_acc1)},
                  {"skipped_steps", s.skipped_steps},
                  {"amp", id.amp},
                  {"class_table", classes_to_json(id.classes)},
                  {"class_table_hash", id.class_hash},
                  {"start_epoch", id.start_epoch ? json(*id.start_epoch) : json(nullptr)},
                  {"settings", settings_to_json(id.settings)},
                  {"scaler", scaler_to_json(s.scaler)}};
  return as_text(j, 1) + "\n";
}

Result<ParsedState> state_from_json(std::string_view text) {
  try {
    const json j = json::parse(text);
    const int schema = j.at("schema").get<int>();
    if (schema < 1 || schema > kStateSchema) {
      return fail(Code::kUnimplemented,
                  "read state.json: schema {} is newer than this program's {}", schema,
                  kStateSchema);
    }
    ParsedState parsed;
    parsed.identity = {.arch = j.at("arch").get<std::string>(),
                       .num_classes = j.at("num_classes").get<int>(),
                       .world = j.at("world").get<int>(),
                       .global_batch = j.at("global_batch").get<int>(),
                       .seed = j.at("seed").get<uint64_t>(),
                       .amp = j.value("amp", false)};
    if (schema >= 2) {
      if (!j.at("start_epoch").is_null()) {
        parsed.identity.start_epoch = j.at("start_epoch").get<int64_t>();
      }
      NPU_TRY(parsed.identity.settings, settings_from_json(j.at("settings")));
    }
    if (const auto table = j.find("class_table"); table != j.end() && !table->is_null()) {
      parsed.identity.classes = table->get<data::ClassTable>();
    }
    parsed.identity.class_hash = j.value("class_table_hash", "");
    TrainState& s = parsed.state;
    s.next_epoch = j.at("next_epoch").get<int>();
    s.step_in_epoch = j.at("step_in_epoch").get<int64_t>();
    s.global_step = j.at("global_step").get<int64_t>();
    s.sums = {from_exact(j.at("epoch_loss_sum")), from_exact(j.at("epoch_top1")),
              from_exact(j.at("epoch_top5")), j.at("epoch_samples").get<int64_t>()};
    s.best_acc1 = from_exact(j.at("best_acc1"));
    s.best_epoch = j.at("best_epoch").get<int>();
    s.last_acc1 = from_exact(j.at("last_acc1"));
    s.skipped_steps = j.at("skipped_steps").get<int64_t>();
    NPU_TRY(s.scaler, scaler_from_json(j));
    if (s.next_epoch < 0 || s.step_in_epoch < 0 || s.global_step < 0) {
      return fail(Code::kDataLoss, "read state.json: epoch {} step {} ({}) cannot be negative",
                  s.next_epoch, s.step_in_epoch, s.global_step);
    }
    return parsed;
  } catch (const json::exception& e) {
    return fail(Code::kDataLoss, "read state.json: {}", e.what());
  }
}

}  // namespace npu::client
