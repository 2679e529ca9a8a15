#include "daemon/control/worker.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/lockfree/spsc_queue.hpp>

namespace npu::daemon {

namespace {

constexpr size_t kQueued = 1024;

}  // namespace

/// Invariant: at most kQueued tasks are between hand_over and run_completions, so that neither
/// queue can be full.
struct Worker::Queues {
  boost::lockfree::spsc_queue<Task*, boost::lockfree::capacity<kQueued>> tasks;
  boost::lockfree::spsc_queue<Completion*, boost::lockfree::capacity<kQueued>> completions;
};

Worker::Worker(UniqueFd event_fd)
    : event_fd_(std::move(event_fd)), queues_(std::make_unique<Queues>()) {}

Result<std::unique_ptr<Worker>> Worker::start(const std::string& thread_name, Priority priority) {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("create a worker's eventfd");
  std::unique_ptr<Worker> worker(new Worker(std::move(fd)));
  Worker* raw = worker.get();
  raw->thread_ = std::thread([raw, priority] {
    // Of this thread alone. Where the process has no priority to give up it is refused, ignoring.
    if (priority == Priority::kRanks) (void)::setpriority(PRIO_PROCESS, 0, 0);
    raw->loop();
  });
  ::pthread_setname_np(raw->thread_.native_handle(), thread_name.substr(0, 15).c_str());
  return worker;
}

Worker::~Worker() {
  // What waits in the list, too: a checkpoint may be among it.
  while (!waiting_.empty()) {
    hand_over();
    run_completions();
    pollfd p{event_fd_.get(), POLLIN, 0};
    if (!waiting_.empty()) (void)::poll(&p, 1, 1000);
  }
  stop_.store(true, std::memory_order_release);
  parker_.notify();
  thread_.join();
  run_completions();
}

void Worker::post(Task task) {
  waiting_.push_back(std::make_unique<Task>(std::move(task)));
  ++pending_;
  hand_over();
}

void Worker::hand_over() {
  while (!waiting_.empty() && pending_ - waiting_.size() < kQueued) {
    NPU_CHECK(queues_->tasks.push(waiting_.front().get()));
    (void)waiting_.front().release();
    waiting_.pop_front();
  }
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
  if (!waiting_.empty()) hand_over();
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
