// A network that steps on and on does not grow.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "model/network.hpp"

namespace npu {
namespace {

struct Memory {
  int64_t resident = 0;  // bytes of this process
  int64_t heap = 0;      // bytes handed out by malloc, its own mappings included
};

Memory look() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  const auto info = mallinfo2();
  return {resident * ::sysconf(_SC_PAGESIZE), static_cast<int64_t>(info.uordblks + info.hblkhd)};
}

TEST(Network, MemoryIsFlatOverFiveHundredSteps) {
  const model::NetworkConfig config{
      .arch = "resnet8", .num_classes = 10, .channels = 1, .height = 8, .width = 8, .batch = 2};
  auto network = model::Network::plan(config);
  ASSERT_TRUE(network) << network.error().message;
  model::HeapAllocator heap;
  ASSERT_TRUE(network->bind(heap));
  network->initialise(1);
  const std::vector<float> images(2 * 8 * 8, 0.5F);
  const std::vector<int32_t> labels = {1, 2};
  const model::SgdParams sgd{.lr = 0.001F, .momentum = 0.9F, .weight_decay = 1e-4F};
  Memory early;
  for (int step = 1; step <= 500; ++step) {
    ASSERT_TRUE(network->forward_train(images, labels));
    ASSERT_TRUE(network->backward({}));
    for (size_t i = 0; i < network->bucket_count(); ++i) network->sgd_step(i, sgd);
    if (step == 100) early = look();
  }
  const Memory late = look();
  // One allocation of 64 bytes kept in each step would show in both.
  EXPECT_LE(late.heap - early.heap, 4 << 10);
  EXPECT_LE(late.resident - early.resident, 128 << 10);
}

}  // namespace
}  // namespace npu
