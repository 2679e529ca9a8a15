#include "client/train/train_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

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

/// An integer that is one and fits: get() would cut a long one and take a fraction.
template <typename T>
Result<T> integer(const json& j, const char* key) {
  const json& value = j.at(key);
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                               : value.is_number_integer() &&
                                                     std::in_range<T>(value.get<int64_t>());
  if (fits) return value.get<T>();
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return fail(Code::kDataLoss, "read state.json: '{}' is {}, expected an integer of {} bits", key,
              printable(text, 40), 8 * sizeof(T));
}

Result<double> from_exact(const json& j, const char* key) {
  NPU_TRY(const uint64_t bits, integer<uint64_t>(j.at(key), "bits"));
  return std::bit_cast<double>(bits);
}

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
  NPU_TRY(const double scale, from_exact(*found, "scale"));
  // A double beyond what a float holds has no defined conversion.
  s.scale = std::abs(scale) <= std::numeric_limits<float>::max()
                ? static_cast<float>(scale)
                : std::numeric_limits<float>::infinity();
  NPU_TRY(s.growth_factor, from_exact(*found, "growth_factor"));
  NPU_TRY(s.backoff_factor, from_exact(*found, "backoff_factor"));
  NPU_TRY(s.growth_interval, integer<int64_t>(*found, "growth_interval"));
  NPU_TRY(s.growth_tracker, integer<int64_t>(*found, "growth_tracker"));
  NPU_TRY(s.skipped_steps, integer<int64_t>(*found, "skipped_steps"));
  NPU_TRY(s.consecutive_skips, integer<int64_t>(*found, "consecutive_skips"));
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

namespace {

Result<CheckpointIdentity> identity_from_json(const json& j, int schema) {
  CheckpointIdentity id;
  id.arch = j.at("arch").get<std::string>();
  NPU_TRY(id.num_classes, integer<int>(j, "num_classes"));
  NPU_TRY(id.world, integer<int>(j, "world"));
  NPU_TRY(id.global_batch, integer<int>(j, "global_batch"));
  NPU_TRY(id.seed, integer<uint64_t>(j, "seed"));
  id.amp = j.value("amp", false);
  if (schema >= 2) {
    if (!j.at("start_epoch").is_null()) {
      NPU_TRY(id.start_epoch, integer<int64_t>(j, "start_epoch"));
    }
    NPU_TRY(id.settings, settings_from_json(j.at("settings")));
  }
  if (const auto table = j.find("class_table"); table != j.end() && !table->is_null()) {
    id.classes = table->get<data::ClassTable>();
  }
  id.class_hash = j.value("class_table_hash", "");
  return id;
}

Result<TrainState> counters_from_json(const json& j) {
  TrainState s;
  NPU_TRY(s.next_epoch, integer<int>(j, "next_epoch"));
  NPU_TRY(s.step_in_epoch, integer<int64_t>(j, "step_in_epoch"));
  NPU_TRY(s.global_step, integer<int64_t>(j, "global_step"));
  NPU_TRY(s.sums.loss, from_exact(j, "epoch_loss_sum"));
  NPU_TRY(s.sums.top1, from_exact(j, "epoch_top1"));
  NPU_TRY(s.sums.top5, from_exact(j, "epoch_top5"));
  NPU_TRY(s.sums.samples, integer<int64_t>(j, "epoch_samples"));
  NPU_TRY(s.best_acc1, from_exact(j, "best_acc1"));
  NPU_TRY(s.best_epoch, integer<int>(j, "best_epoch"));
  NPU_TRY(s.last_acc1, from_exact(j, "last_acc1"));
  NPU_TRY(s.skipped_steps, integer<int64_t>(j, "skipped_steps"));
  return s;
}

}  // namespace

Result<ParsedState> state_from_json(std::string_view text) {
  try {
    const json j = json::parse(text);
    NPU_TRY(const int schema, integer<int>(j, "schema"));
    if (schema < 1 || schema > kStateSchema) {
      return fail(Code::kUnimplemented,
                  "read state.json: schema {} is newer than this program's {}", schema,
                  kStateSchema);
    }
    ParsedState parsed;
    NPU_TRY(parsed.identity, identity_from_json(j, schema));
    NPU_TRY(parsed.state, counters_from_json(j));
    TrainState& s = parsed.state;
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
