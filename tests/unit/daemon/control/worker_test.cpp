#include "daemon/control/worker.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace npu::daemon {
namespace {

void run_until(Worker& worker, const std::function<bool()>& done) {
  while (!done()) {
    pollfd p{worker.event_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, 30'000), 1) << "nothing more comes";
    worker.run_completions();
  }
}

// A client could once fill the queue while the disk was slow, and that ended the daemon.
TEST(Worker, MoreTasksThanTheQueueHoldsWaitAndRunInOrder) {
  auto sut = Worker::start("test");
  ASSERT_TRUE(sut);
  std::atomic<bool> blocked{true};
  std::vector<int> order;
  (*sut)->post([&blocked]() -> Worker::Completion {
    blocked.wait(true);
    return {};
  });
  constexpr int kTasks = 5000;
  for (int i = 0; i < kTasks; ++i) {
    (*sut)->post([&order, i]() -> Worker::Completion { return [&order, i] { order.push_back(i); }; });
  }
  EXPECT_EQ((*sut)->pending(), kTasks + 1u);
  blocked = false;
  blocked.notify_all();
  run_until(**sut, [&] { return (*sut)->pending() == 0; });
  ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
  for (int i = 0; i < kTasks; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Worker, ItsEndFinishesWhatWaits) {
  int ran = 0;
  {
    auto sut = Worker::start("test");
    ASSERT_TRUE(sut);
    for (int i = 0; i < 3000; ++i) {
      (*sut)->post([&ran]() -> Worker::Completion { return [&ran] { ++ran; }; });
    }
  }
  EXPECT_EQ(ran, 3000);
}

}  // namespace
}  // namespace npu::daemon
