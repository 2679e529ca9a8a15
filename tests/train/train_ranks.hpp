// Ranks of one job as threads, each with a replica on a device of a real daemon, and what a golden
// file knows about the result.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/train/replica.hpp"
#include "client/train/stepper.hpp"
#include "config/load.hpp"
#include "tests/golden/golden_file.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::train {

using client::Replica;

inline config::Job job_of(const std::string& text) {
  auto job = config::load_job_text(text, "job.yaml");
  EXPECT_TRUE(job) << job.error().message;
  return job ? *job : config::Job{};
}

/// What a job of the tests here says beyond its network and its data; text of a section goes on
/// behind what it has, as in ", sync_bn: true".
struct SmallJob {
  std::string devices = "0-1";
  int batch = 8;  // over all ranks
  std::string model{}, train{}, collectives{};
  std::string more{};  // whole sections
};

/// The images of small_job.
inline constexpr data::ImageShape kShape{12, 12, 3};

/// The smallest network on small images of five classes.
inline config::Job small_job(const SmallJob& job) {
  return job_of("name: small\ndevices: '" + job.devices +
                "'\nmodel: {arch: resnet8, num_classes: 5" + job.model +
                "}\ndata: {format: synthetic, train_samples: 64, val_samples: 8, image_size: 12}\n"
                "train: {epochs: 4, batch_size: " +
                std::to_string(job.batch) + job.train + "}\ncollectives: {timeout: 20s" +
                job.collectives + "}\n" + job.more);
}

class TrainTest : public testing::Test {
 protected:
  test::DaemonProcess daemon_;
};

/// Runs `body` on every rank of `job`, after the broadcast of rank 0's state. The ranks end
/// together, unless `ends` is false: then each leaves as it likes.
inline void on_ranks(const test::DaemonProcess& daemon, const config::Job& job,
                     const std::function<void(Replica&)>& body, bool ends = true) {
  const auto data = data::open_data(job);
  ASSERT_TRUE(data) << data.error().message;
  const auto one = [&](int rank) {
    const client::RankOptions options{
        .socket = daemon.socket(), .run_key = "0123456789abcdef0123456789abcdef", .rank = rank};
    const auto replica = Replica::create(job, options, *data);
    ASSERT_TRUE(replica) << replica.error().message;
    std::optional<std::string> from;
    const auto started = (*replica)->start(from);
    ASSERT_TRUE(started) << started.error().message;
    body(**replica);
    if (!ends || (*replica)->device().failure()) return;
    auto barrier = (*replica)->world().barrier({});
    ASSERT_TRUE(barrier && barrier->wait());
    ASSERT_TRUE((*replica)->device().detach());
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < job.world(); ++rank) ranks.emplace_back(one, rank);
  for (std::thread& rank : ranks) rank.join();
}

/// Every parameter and buffer by name, in file order of its elements.
using Tensors = std::map<std::string, std::vector<float>>;

inline Tensors tensors_of(const model::Network& network) {
  Tensors all;
  for (size_t i = 0; i < network.state().size(); ++i) {
    const model::StateEntry& entry = network.state()[i];
    if (entry.kind == model::StateKind::kBatchesTracked) continue;
    network.export_state(i, all[entry.name] = std::vector<float>(entry.count));
  }
  return all;
}

/// Batches of the golden files: step s of a job of `total` images a step has its own ones, rank r
/// and micro-batch k take a contiguous share each.
class GoldenBatches {
 public:
  GoldenBatches(const config::Job& job, int steps)
      : job_(job),
        elements_(kShape.elements()),
        images_(golden::images(static_cast<size_t>(steps * job.train.batch_size) * elements_)),
        labels_(golden::labels(static_cast<size_t>(steps * job.train.batch_size),
                               job.model.num_classes)) {}

  data::Batch of(int step, int rank, int micro_batch) {
    const int n = job_.rank_batch();
    const auto first = static_cast<size_t>(step * job_.train.batch_size +
                                           (rank * job_.train.accumulate + micro_batch) * n);
    return {.images = images_.data() + first * elements_, .labels = labels_.data() + first, .n = n};
  }

 private:
  const config::Job& job_;
  size_t elements_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
};

/// Step s of the golden batches on one rank.
inline Result<client::StepMetrics> step(client::Stepper& stepper, GoldenBatches& batches, int s,
                                        Replica& replica, double rate) {
  for (int k = 0; k < replica.job().train.accumulate; ++k) {
    NPU_TRY_VOID(stepper.pass(batches.of(s, replica.rank(), k)));
  }
  return stepper.finish(rate);
}

/// Largest difference of a tensor's norm and projection from the golden ones, relative to its norm;
/// running statistics only on request.
inline double distance(const Tensors& got, const golden::Golden& want, bool running = false) {
  double worst = 0;
  for (const auto& [name, values] : got) {
    if (!running && name.find("running_") != std::string::npos) continue;
    const auto entry = want.state.find(name);
    EXPECT_NE(entry, want.state.end()) << name;
    if (entry == want.state.end()) continue;
    const golden::Fingerprint print = golden::fingerprint(values, 3000);
    const double difference = std::max(std::abs(print.norm - entry->second.norm),
                                       std::abs(print.projection - entry->second.projection));
    worst = std::max(worst, difference / std::max(entry->second.norm, 1e-12));
  }
  return worst;
}

/// Steps of the golden batches at these rates, from the golden weights; returns rank 0's losses and
/// weights.
inline std::vector<double> train_golden(const test::DaemonProcess& daemon, const config::Job& job,
                                        const std::vector<double>& rates, Tensors& weights) {
  std::vector<double> losses;
  on_ranks(daemon, job, [&](Replica& replica) {
    golden::fill(replica.network());
    GoldenBatches batches(job, static_cast<int>(rates.size()));
    client::Stepper sut(replica);
    for (size_t s = 0; s < rates.size(); ++s) {
      const auto metrics = step(sut, batches, static_cast<int>(s), replica, rates[s]);
      ASSERT_TRUE(metrics) << metrics.error().message;
      if (replica.rank() == 0) losses.push_back(metrics->loss);
    }
    if (replica.rank() == 0) weights = tensors_of(replica.network());
  });
  return losses;
}

}  // namespace npu::train
