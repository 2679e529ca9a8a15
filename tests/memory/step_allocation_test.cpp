// Nothing of ours takes memory in a training step once the first one is over; oneDNN's bookkeeping
// is counted beside it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "client/render/json_renderer.hpp"
#include "client/train/trainer.hpp"
#include "model/network.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using test::AllocationCounts;

TEST(AllocationCounter, SeesBothWaysToTakeMemory) {
  test::start_counting();
  auto one = std::make_unique<int>(1);
  void* const two = std::malloc(10);
  asm volatile("" : : "r"(one.get()), "r"(two) : "memory");
  const AllocationCounts counts = test::stop_counting();
  std::free(two);
  EXPECT_EQ(counts.own, 2U);
  EXPECT_EQ(counts.library, 0U);
}

class NetworkStep : public testing::TestWithParam<int> {};

TEST_P(NetworkStep, TakesNoMemoryAfterTheFirst) {
  const model::NetworkConfig config{.arch = "resnet8",
                                    .num_classes = 10,
                                    .channels = 3,
                                    .height = 12,
                                    .width = 12,
                                    .batch = 6,
                                    .threads = GetParam()};
  auto network = model::Network::plan(config);
  ASSERT_TRUE(network) << network.error().message;
  model::HeapAllocator heap;
  ASSERT_TRUE(network->bind(heap));
  network->initialise(1);
  const std::vector<float> images(6 * 12 * 12 * 3, 0.5F);
  const std::vector<int32_t> labels(6, 1);
  const model::SgdParams sgd{.lr = 0.01F, .momentum = 0.9F, .weight_decay = 1e-4F};
  size_t announced = 0;
  const model::BucketReady ready = [&](size_t) { ++announced; };
  bool good = true;
  const auto step = [&] {
    good = network->forward_train(images, labels).has_value() && good;
    good = network->backward(ready).has_value() && good;
    for (size_t i = 0; i < network->bucket_count(); ++i) network->sgd_step(i, sgd);
  };
  step();
  test::start_counting();
  for (int i = 0; i < 3; ++i) step();
  const AllocationCounts counts = test::stop_counting();
  EXPECT_TRUE(good);
  EXPECT_EQ(announced, 4 * network->bucket_count());
  EXPECT_EQ(counts.own, 0U) << "first:" << counts.first;
  std::printf("oneDNN and libgomp: %llu allocations in 3 steps\n",
              static_cast<unsigned long long>(counts.library));
}

INSTANTIATE_TEST_SUITE_P(Threads, NetworkStep, testing::Values(1, 2));

TEST(StepRecord, IsSentWithoutTakingMemory) {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(null, 0);
  client::JsonSink sink(null);
  const client::Event event = client::StepEvent{.step = 7, .loss = 1.25, .lr = 0.1};
  test::start_counting();
  for (int i = 0; i < 3; ++i) sink.on_event(event);
  const AllocationCounts counts = test::stop_counting();
  ::close(null);
  EXPECT_EQ(counts.own + counts.library, 0U) << "first:" << counts.first;
}

// A job of two ranks as `npu train` runs it, loader and daemon included.

constexpr int kFirst = 3, kLast = 10;  // steps between whose ends allocations count

config::Job small_job() {
  config::Job job;
  job.name = "allocations";
  job.devices = {0, 1};
  job.model.arch = "resnet8";
  job.model.num_classes = 10;
  job.data.image_size = 12;
  job.data.train_samples = 8 * (kLast + 4);
  job.data.val_samples = 2;
  job.data.workers = 2;
  job.train.batch_size = 8;
  job.train.epochs = 1;
  job.train.print_freq = 1;
  job.train.stop_after_steps = kLast + 1;
  job.checkpoint.every_epochs = 0;
  return job;
}

class Sink final : public client::EventSink {
 public:
  void on_event(const client::Event& event) override {
    const auto* step = std::get_if<client::StepEvent>(&event);
    if (step == nullptr) return;
    if (step->step == kFirst) test::start_counting();
    if (step->step == kFirst + 1) {
      // One that must be seen: a zero would also be what a counter that is off counts.
      void* const seen = std::malloc(10);
      asm volatile("" : : "r"(seen) : "memory");
      std::free(seen);
    }
    if (step->step == kLast) counts = test::stop_counting();
  }
  std::optional<AllocationCounts> counts;
};

TEST(TrainerStep, OfTwoRanksTakesNoMemory) {
  const test::DaemonProcess daemon;
  const config::Job job = small_job();
  client::RankOptions options{.socket = daemon.socket(), .run_key = "key", .rank = 0, .threads = 1};
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    options.rank = 1;
    Sink ignored;
    ::alarm(50);
    ::_exit(client::run_rank(job, options, ignored) ? 0 : 1);
  }
  Sink sink;
  const auto done = client::run_rank(job, options, sink);
  if (!done) ::kill(other, SIGKILL);
  int status = -1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(sink.counts);
  EXPECT_EQ(sink.counts->own, 1U) << "first:" << sink.counts->first;
}

}  // namespace
}  // namespace npu
