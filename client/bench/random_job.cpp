#include "client/bench/random_job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <numeric>

#include "client/bench/step_bench_common.hpp"

namespace npu::client {
namespace {

constexpr int kEpochSteps = 4;  // a small data set: each rank holds all of it

}  // namespace

config::Job random_job(const RandomJob& wanted) {
  config::Job job;
  job.name = fmt::format("{}-{}", wanted.name, ::getpid());
  job.devices.resize(wanted.ranks);
  std::iota(job.devices.begin(), job.devices.end(), 0);
  job.model.arch = wanted.arch;
  job.model.num_classes = wanted.classes;
  job.train.batch_size = wanted.batch * static_cast<int>(wanted.ranks);
  job.train.epochs = wanted.steps / kEpochSteps + 2;  // the last one is never finished
  job.train.print_freq = 1;
  job.train.stop_after_steps = wanted.steps;
  job.data.train_samples = job.train.batch_size * kEpochSteps;
  job.data.val_samples = static_cast<int>(wanted.ranks);
  job.data.image_size = wanted.image_size;
  job.data.channels = wanted.channels;
  job.data.workers = 1;
  job.optimizer.lr = static_cast<double>(kBenchRate);
  job.schedule.kind = config::ScheduleKind::kConstant;
  job.checkpoint.every_epochs = 0;
  job.checkpoint.resume = config::ResumeKind::kNever;
  return job;
}

}  // namespace npu::client
