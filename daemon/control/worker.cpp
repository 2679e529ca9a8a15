#include "daemon/control/worker.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/lockfree/spsc_queue.hpp>

namespace npu::daemon {

struct Worker::Queues {
  boost::lockfree::spsc_queue<Task*, boost::lockfree::capacity<1024>> tasks;
  boost::lockfree::spsc_queue<Completion*, boost::lockfree::capacity<1024>> completions;
};

Worker::Worker(UniqueFd event_fd)
    : event_fd_(std::move(event_fd)), queues_(std::make_unique<Queues>()) {}

Result<std::unique_ptr<Worker>> Worker::start(const std::string& thread_name) {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("create a worker's eventfd");
  std::unique_ptr<Worker> worker(new Worker(std::move(fd)));
  Worker* raw = worker.get();
  raw->thread_ = std::thread([raw] { raw->loop(); });
  ::pthread_setname_np(raw->thread_.native_handle(), thread_name.substr(0, 15).c_str());
  return worker;
}

Worker::~Worker() {
  stop_.store(true, std::memory_order_release);
  parker_.notify();
  thread_.join();
  run_completions();
}

void Worker::post(Task task) {
  auto owned = std::make_unique<Task>(std::move(task));
  NPU_CHECK(queues_->tasks.push(owned.get()));
  (void)owned.release();
  ++pending_;
  parker_.notify();
}

void Worker::run_completions() {
  uint64_t count = 0;
  (void)!::read(event_fd_.get(), &count, sizeof(count));
  Completion* raw = nullptr;
  while (queues_->completions.pop(raw)) {
    const std::unique_ptr<Completion> completion(raw);
    --pending_;
    if (*completion) (*completion)();
  }
}

void Worker::loop() {
  for (;;) {
    Task* raw = nullptr;
    if (queues_->tasks.pop(raw)) {
      const std::unique_ptr<Task> task(raw);
      auto completion = std::make_unique<Completion>((*task)());
      NPU_CHECK(queues_->completions.push(completion.get()));
      (void)completion.release();
      const uint64_t one = 1;
      (void)!::write(event_fd_.get(), &one, sizeof(one));
      continue;
    }
    const uint32_t ticket = parker_.prepare();
    if (queues_->tasks.read_available() != 0) {
      parker_.cancel();
    } else if (stop_.load(std::memory_order_acquire)) {
      return;
    } else {
      parker_.sleep(ticket, std::chrono::seconds(10));
    }
  }
}

}  // namespace npu::daemon
