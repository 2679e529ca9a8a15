#include "client/train/train_state.hpp"

#include <bit>
#include <nlohmann/json.hpp>

#include "client/version.hpp"

namespace npu::client {
namespace {

using nlohmann::json;

// Doubles travel as their bits beside the readable number: a decimal round trip is not worth a
// doubt.
json exact(double value) { return {{"value", value}, {"bits", std::bit_cast<uint64_t>(value)}}; }
double from_exact(const json& j) { return std::bit_cast<double>(j.at("bits").get<uint64_t>()); }

}  // namespace

CheckpointIdentity identity_of(const config::Job& job) {
  return {job.model.arch, job.model.num_classes, job.world(), job.train.batch_size, job.seed};
}

std::string state_to_json(const TrainState& s, const CheckpointIdentity& id) {
  const json j = {{"schema", 1},
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
                  {"skipped_steps", s.skipped_steps}};
  return j.dump(1) + "\n";
}

Result<ParsedState> state_from_json(std::string_view text) {
  try {
    const json j = json::parse(text);
    if (j.at("schema").get<int>() != 1) {
      return fail(Code::kUnimplemented, "read state.json: schema {} is newer than this program's 1",
                  j.at("schema").get<int>());
    }
    ParsedState parsed;
    parsed.identity = {j.at("arch").get<std::string>(), j.at("num_classes").get<int>(),
                       j.at("world").get<int>(), j.at("global_batch").get<int>(),
                       j.at("seed").get<uint64_t>()};
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
    if (s.next_epoch < 0 || s.step_in_epoch < 0 || s.global_step < 0) {
      return fail(Code::kDataLoss, "read state.json: epoch {} step {} ({}) cannot be negative",
                  s.next_epoch, s.step_in_epoch, s.global_step);
    }
    return parsed;
  } catch (const json::exception& e) {
    return fail(Code::kDataLoss, "read state.json: {}", e.what());
  }
}

Result<void> check_identity(const CheckpointIdentity& file, const CheckpointIdentity& job,
                            const std::string& path) {
  const auto differs = [&](const char* field, const auto& theirs, const auto& ours) {
    return fail(Code::kFailedPrecondition,
                "resume from '{}': its {} is {}, the job's is {}; restore the job's value, change "
                "the job's name, or "
                "set checkpoint.resume=never",
                path, field, theirs, ours);
  };
  if (file.arch != job.arch) return differs("model.arch", file.arch, job.arch);
  if (file.num_classes != job.num_classes)
    return differs("model.num_classes", file.num_classes, job.num_classes);
  if (file.global_batch != job.global_batch)
    return differs("train.batch_size", file.global_batch, job.global_batch);
  if (file.seed != job.seed) return differs("seed", file.seed, job.seed);
  return {};
}

}  // namespace npu::client
