#include "client/cli/last_words.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "client/cli/command.hpp"

namespace npu::cli {
namespace {

constexpr std::chrono::milliseconds kMoment{150};

}  // namespace

LastWords::LastWords(std::unique_ptr<client::EventSink> sink, bool to_stderr)
    : sink_(std::move(sink)), to_stderr_(to_stderr) {}

void LastWords::on_event(const client::Event& event) {
  const std::lock_guard lock(mutex_);
  if (sink_ != nullptr) sink_->on_event(event);
}

int LastWords::say(const Error& error) {
  const std::lock_guard lock(mutex_);
  const int code = static_cast<int>(error.exit);
  if (said_) return code;
  said_ = true;
  client::ErrorEvent event;
  event.code = code_name(error.code);
  event.exit_code = code;
  event.rank = rank_;
  event.pid = ::getpid();
  event.message = error.message;
  sink_->on_event(event);
  sink_.reset();  // a live line is gone before the sentence is printed
  return to_stderr_ ? report_error("train", error) : code;
}

std::function<void(const Error&)> LastWords::failure_handler() {
  return [this](const Error& error) {
    std::this_thread::sleep_for(kMoment);
    ::_exit(say(error));
  };
}

}  // namespace npu::cli
