#include "client/api/work.hpp"

#include <cstring>
#include <utility>

namespace npu::client {

Work::Work(Work&& other) noexcept
    : queue_(std::exchange(other.queue_, nullptr)),
      ticket_(other.ticket_),
      inline_(other.inline_),
      staged_(std::exchange(other.staged_, {})) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    drop();
    queue_ = std::exchange(other.queue_, nullptr);
    ticket_ = other.ticket_;
    inline_ = other.inline_;
    staged_ = std::exchange(other.staged_, {});
  }
  return *this;
}

Work::~Work() { drop(); }

void Work::drop() noexcept {
  if (queue_ == nullptr) return;
  if (staged_[0].copy == nullptr && staged_[1].copy == nullptr) {
    queue_->abandon(ticket_);
    queue_ = nullptr;
    return;
  }
  (void)wait();  // the copies are in use until then
}

void Work::unstage(bool copy_back) noexcept {
  for (StagedCopy& s : staged_) {
    if (s.copy == nullptr) continue;
    if (copy_back && s.back_to != nullptr) std::memcpy(s.back_to, s.copy, s.bytes);
    queue_->staging().release(s.copy);
    s = {};
  }
}

bool Work::ready() const noexcept { return queue_ == nullptr || queue_->ready(ticket_); }

Result<CollectiveResult> Work::wait(Deadline deadline) {
  if (queue_ == nullptr) {
    return fail(Code::kFailedPrecondition,
                "wait: this handle holds no operation, or was waited for already");
  }
  auto outcome = queue_->wait(ticket_, deadline);
  if (outcome && !*outcome) {
    return fail(Code::kDeadlineExceeded,
                "wait: the operation is not complete; wait again, or let its own deadline decide");
  }
  unstage(outcome.has_value());
  queue_ = nullptr;
  if (!outcome) return tl::unexpected(std::move(outcome.error()));
  const shm::Outcome& done = **outcome;
  if (inline_.to != nullptr) std::memcpy(inline_.to, done.inline_payload.data(), inline_.bytes);
  return CollectiveResult{done.found_inf, done.result_inf, done.sum_squares, done.algorithm};
}

}  // namespace npu::client
