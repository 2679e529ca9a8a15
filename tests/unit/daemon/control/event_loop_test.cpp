#include "daemon/control/event_loop.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace npu::daemon {
namespace {

constexpr milliseconds kLimit{30'000};

UniqueFd ready_fd() { return UniqueFd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }
UniqueFd silent_fd() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

/// `fd` under the number of one that was closed, as the kernel gives it to the next one.
UniqueFd renumbered(UniqueFd fd, int number) {
  if (fd.get() == number) return fd;
  EXPECT_EQ(::dup2(fd.get(), number), number);
  return UniqueFd(number);
}

EventLoop loop() {
  auto made = EventLoop::create();
  EXPECT_TRUE(made);
  return std::move(*made);
}

// A daemon once closed the connection of a client that had just come, because a client that went
// in the same round had had the same descriptor.
TEST(EventLoop, WhatAClosedDescriptorReportedIsNotGivenToTheNextOneOfItsNumber) {
  EventLoop sut = loop();
  UniqueFd first = ready_fd(), second = ready_fd();
  int ran = 0, ran_new = 0;
  // Whichever comes first closes the other one and watches a new one under its number.
  const auto replace = [&](UniqueFd& other) {
    ++ran;
    const int number = other.get();
    sut.remove(number);
    other.reset();
    other = renumbered(silent_fd(), number);
    ASSERT_TRUE(sut.add(number, [&](uint32_t) { ++ran_new; }));
  };
  ASSERT_TRUE(sut.add(first.get(), [&](uint32_t) { replace(second); }));
  ASSERT_TRUE(sut.add(second.get(), [&](uint32_t) { replace(first); }));
  sut.run_once(kLimit);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(ran_new, 0);
}

TEST(EventLoop, ANewDescriptorOfAnOldNumberIsHeard) {
  EventLoop sut = loop();
  UniqueFd fd = ready_fd();
  const int number = fd.get();
  int old_ran = 0, ran = 0;
  ASSERT_TRUE(sut.add(number, [&](uint32_t) { ++old_ran; }));
  sut.remove(number);
  fd.reset();
  const UniqueFd fresh = renumbered(ready_fd(), number);
  ASSERT_TRUE(sut.add(number, [&](uint32_t) { ++ran; }));
  sut.watch(number, true, false);  // keeps what it is
  sut.run_once(kLimit);
  EXPECT_EQ(old_ran, 0);
  EXPECT_EQ(ran, 1);
}

TEST(EventLoop, ACallbackMayRemoveItself) {
  EventLoop sut = loop();
  const UniqueFd fd = ready_fd();
  auto alive = std::make_shared<int>(0);
  ASSERT_TRUE(sut.add(fd.get(), [&sut, number = fd.get(), alive](uint32_t) {
    sut.remove(number);
    ++*alive;  // what it captured is still there
  }));
  sut.run_once(kLimit);
  sut.run_once(milliseconds(0));
  EXPECT_EQ(*alive, 1);
}

}  // namespace
}  // namespace npu::daemon
