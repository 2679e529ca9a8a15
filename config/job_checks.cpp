// Rules that need more than one key. They run on whatever could be read, and stay silent about
// values that were already refused: such keys still hold their defaults.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/load.hpp"
#include "config/schema.hpp"

namespace npu::config {
namespace {

class Checker {
 public:
  Checker(const Job& job, const Places& places, Diagnostics& out)
      : job_(job), places_(places), out_(out) {}

  void run() const {
    required();
    model();
    batch();
    optimizer_and_schedule();
    control();
    profile();
    data();
    placement();
  }

 private:
  [[nodiscard]] bool given(std::string_view path) const { return places_.written.contains(path); }

  template <typename... Paths>
  [[nodiscard]] bool sound(Paths... paths) const {
    return (!places_.refused.contains(std::string_view(paths)) && ...);
  }

  // Where `path` was written, else the first of the fallbacks, else the top of the file.
  [[nodiscard]] Place at(std::string_view path, std::string_view fallback = {}) const {
    for (const std::string_view key : {path, fallback}) {
      if (const auto it = places_.written.find(key); it != places_.written.end()) return it->second;
    }
    return Place{0, 1, 1, 1};
  }

  void report(Place place, std::string_view path, const std::string& message,
              std::string hint = {}) const {
    out_.add(place, fmt::format("{}: {}", path, message), std::move(hint));
  }

  void required() const {
    if (!given("name")) {
      report(at("name"), "name", "missing; it names the run and its checkpoint folder",
             "add a line such as 'name: my-run'");
    }
    if (job_.data.format != DataFormat::kSynthetic && job_.data.path.empty() &&
        sound("data.format", "data.path")) {
      report(at("data.path", "data.format"), "data.path",
             "missing; only data.format synthetic does without a folder");
    }
  }

  void model() const {
    if (job_.model.ignore_head && !job_.model.pretrained && sound("model.pretrained")) {
      report(at("model.ignore_head"), "model.ignore_head",
             "true without model.pretrained, so there is no head to ignore",
             "name a safetensors file, or leave it out");
    }
  }

  void batch() const {
    const int world = job_.world();
    const int parts = world * job_.train.accumulate;
    const int size = job_.train.batch_size;
    if (size % parts == 0 || !sound("devices", "train.batch_size", "train.accumulate")) return;
    const int below = size / parts * parts;
    const std::string nearest = below == 0 ? fmt::format("use {}", parts)
                                           : fmt::format("use {} or {}", below, below + parts);
    const std::string where = given("devices") ? fmt::format(" ({} devices are set at {})", world,
                                                             out_.place_text(at("devices")))
                                               : fmt::format(" ({} devices by default)", world);
    const std::string over =
        job_.train.accumulate == 1
            ? fmt::format("{} ranks", world)
            : fmt::format("{} ranks times {} micro-batches", world, job_.train.accumulate);
    report(at("train.batch_size", "devices"), "train.batch_size",
           fmt::format("{} images over {} leave a remainder of {}", size, over, size % parts),
           nearest + where);
  }

  void optimizer_and_schedule() const {
    const OptimizerConfig& opt = job_.optimizer;
    if (opt.nesterov && opt.momentum <= 0 && sound("optimizer.momentum")) {
      report(at("optimizer.nesterov"), "optimizer.nesterov",
             "needs optimizer.momentum above 0, which is 0", "set momentum, or nesterov: false");
    }
    const ScheduleConfig& s = job_.schedule;
    if (s.kind == ScheduleKind::kMultistep && s.milestones.empty() &&
        sound("schedule.milestones")) {
      report(at("schedule.milestones", "schedule.kind"), "schedule.milestones",
             "missing; kind multistep drops the rate at these epochs", "such as [30, 60, 80]");
    }
    for (size_t i = 1; i < s.milestones.size(); ++i) {
      if (s.milestones[i] > s.milestones[i - 1]) continue;
      report(at("schedule.milestones"), "schedule.milestones",
             fmt::format("{} follows {}; expected ascending epochs", s.milestones[i],
                         s.milestones[i - 1]));
      break;
    }
    end_rate();
    // TensorFlow's schedule counts steps from the start, so a run may end within its warm-up.
    const bool piecewise = job_.profile == Profile::kTf &&
                           (s.kind == ScheduleKind::kStep || s.kind == ScheduleKind::kMultistep);
    if (!piecewise && s.warmup_epochs > 0 && s.warmup_epochs >= job_.train.epochs &&
        sound("schedule.warmup_epochs", "train.epochs")) {
      report(
          at("schedule.warmup_epochs", "train.epochs"), "schedule.warmup_epochs",
          fmt::format("{} leaves nothing of train.epochs {}", s.warmup_epochs, job_.train.epochs),
          fmt::format("use at most {}", job_.train.epochs - 1));
    }
  }

  void end_rate() const {
    const ScheduleConfig& s = job_.schedule;
    const bool falls = s.kind == ScheduleKind::kCosine || s.kind == ScheduleKind::kLinear;
    if (s.end_lr == 0 || !sound("schedule.end_lr", "schedule.kind", "optimizer.lr")) return;
    if (!falls) {
      report(at("schedule.end_lr", "schedule.kind"), "schedule.end_lr",
             "only kind cosine and linear end at a rate", "leave it out, or choose one of those");
    } else if (s.end_lr > job_.optimizer.lr) {
      report(at("schedule.end_lr", "optimizer.lr"), "schedule.end_lr",
             fmt::format("{} is above optimizer.lr {}", s.end_lr, job_.optimizer.lr));
    }
  }

  void control() const {
    const TrainConfig& t = job_.train;
    if (t.start_epoch && *t.start_epoch >= t.epochs && sound("train.start_epoch", "train.epochs")) {
      report(at("train.start_epoch", "train.epochs"), "train.start_epoch",
             fmt::format("{} leaves nothing of train.epochs {}", *t.start_epoch, t.epochs),
             fmt::format("epochs count from 0, so the last one is {}", t.epochs - 1));
    }
    if (t.evaluate && job_.checkpoint.resume == ResumeKind::kNever && !job_.model.pretrained &&
        sound("checkpoint.resume", "model.pretrained")) {
      report(at("train.evaluate", "checkpoint.resume"), "train.evaluate",
             "there are no weights to evaluate: checkpoint.resume is never",
             "name a checkpoint, or a file with model.pretrained");
    }
  }

  void profile() const {
    if (job_.profile != Profile::kTf || !sound("profile")) return;
    if (job_.optimizer.nesterov) {
      report(at("optimizer.nesterov"), "optimizer.nesterov", "profile tf has no Nesterov step",
             "set nesterov: false, or profile: pytorch");
    }
    if (job_.schedule.warmup_form != WarmupForm::kLinear && sound("schedule.warmup_form")) {
      report(at("schedule.warmup_form"), "schedule.warmup_form",
             "profile tf warms up linearly from 0", "leave it out, or set profile: pytorch");
    }
  }

  void data() const {
    const DataConfig& d = job_.data;
    if (d.image_size > 0 && d.image_size < 8) {
      report(at("data.image_size"), "data.image_size",
             fmt::format("{} is too small for any network here", d.image_size),
             "use 8 or more, or 0 for the format's own size");
    }
    if (d.mean.size() != d.std.size() && sound("data.mean", "data.std")) {
      report(at("data.mean", "data.std"), "data.mean",
             fmt::format("{} numbers where data.std has {}", d.mean.size(), d.std.size()),
             "give one of each for every channel, or neither");
    }
    if (d.format == DataFormat::kSynthetic && d.train_samples < job_.train.batch_size &&
        sound("data.format", "data.train_samples", "train.batch_size")) {
      report(at("data.train_samples", "train.batch_size"), "data.train_samples",
             fmt::format("{} images do not fill one batch of {}, so an epoch has no step",
                         d.train_samples, job_.train.batch_size));
    }
  }

  void placement() const {
    if (job_.placement != Placement::kStrict || !sound("devices", "placement")) return;
    if (const std::string why = placement_problem(job_.devices); !why.empty()) {
      report(at("devices", "placement"), "devices", why, "or set placement: warn");
    }
  }

  const Job& job_;
  const Places& places_;
  Diagnostics& out_;
};

}  // namespace

std::string placement_problem(std::span<const int> devices) {
  const size_t n = devices.size();
  if (n != 1 && n != 2 && n != 4 && n != 8) {
    return fmt::format("{} devices; an Ascend server takes 1, 2, 4 or 8", n);
  }
  if (n == 8 || devices.front() / 4 == devices.back() / 4) return {};
  return fmt::format("{} straddle the two rings of an Ascend server; stay within 0-3 or 4-7",
                     fmt::join(devices, ", "));
}

void check_job(const Job& job, const Places& places, Diagnostics& out) {
  Checker(job, places, out).run();
}

}  // namespace npu::config
