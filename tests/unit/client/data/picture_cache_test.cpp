// Memory for decoded pictures that processes share: what one keeps another finds, in bounded room;
// what a broken peer writes is not a picture.
#include "client/data/picture_cache.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

namespace npu::data {
namespace {

constexpr uint64_t kRoom = 1 << 16;
constexpr uint64_t kSlotAt = 128;  // of the first slot

image::Image picture(int width, int height, uint8_t level) {
  image::Image out;
  out.shape(image::whole({width, height}), 3);
  std::fill(out.pixels.begin(), out.pixels.end(), level);
  return out;
}

std::shared_ptr<PictureMemory> open(int fd, size_t slots = 4, uint64_t bytes = kRoom) {
  auto memory = PictureMemory::open(fd, slots, bytes);
  EXPECT_TRUE(memory) << memory.error().message;
  return memory ? *memory : nullptr;
}

/// The level of all pixels of the kept picture, -1 if there is none or they differ.
int level(const PictureMemory& memory, size_t slot) {
  const auto found = memory.find(slot);
  if (!found) return -1;
  const std::span<const uint8_t> pixels(
      found->pixels, static_cast<size_t>(found->size.width * found->size.height * found->channels));
  return std::ranges::count(pixels, pixels[0]) == std::ssize(pixels) ? pixels[0] : -1;
}

TEST(PictureMemory, WhatOneKeepsAnotherFinds) {
  const auto fd = PictureMemory::create();
  ASSERT_TRUE(fd);
  const auto a = open(fd->get());
  const auto b = open(fd->get());
  EXPECT_FALSE(b->find(2));
  a->keep(2, picture(5, 3, 77));
  const auto found = b->find(2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size, (image::Size{5, 3}));
  EXPECT_EQ(found->channels, 3);
  EXPECT_EQ(level(*b, 2), 77);
  b->keep(2, picture(5, 3, 88));
  EXPECT_EQ(level(*a, 2), 77) << "the first one stays";
  EXPECT_FALSE(a->find(4)) << "no such slot";
  a->keep(4, picture(1, 1, 1));
}

TEST(PictureMemory, AChildProcessFillsIt) {
  const auto fd = PictureMemory::create();
  ASSERT_TRUE(fd);
  const auto mine = open(fd->get());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto memory = PictureMemory::open(fd->get(), 4, kRoom);
    if (memory) (*memory)->keep(0, picture(9, 9, 5));
    ::_exit(memory ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(level(*mine, 0), 5);
}

TEST(PictureMemory, StopsWhenItIsFull) {
  const auto memory = open(-1, 64, 10'000);
  const image::Image one = picture(30, 30, 9);  // 2700 bytes and a head
  size_t kept = 0;
  for (size_t i = 0; i < 64; ++i) {
    memory->keep(i, one);
    kept += memory->find(i) ? 1 : 0;
  }
  EXPECT_EQ(kept, 3U);
  EXPECT_FALSE(memory->has_room({30, 30}));
  EXPECT_TRUE(memory->has_room({10, 10}));
  memory->keep(10, picture(10, 10, 3));
  EXPECT_EQ(level(*memory, 10), 3) << "a slot that found no room may try again";
}

TEST(PictureMemory, ThreadsShareSlotsAndRoom) {
  constexpr size_t kSlots = 200;
  const auto memory = open(-1, kSlots, uint64_t{1} << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < kSlots; ++i) {
        memory->keep(i, picture(4, 4, static_cast<uint8_t>(i)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < kSlots; ++i) EXPECT_EQ(level(*memory, i), static_cast<int>(i));
}

TEST(PictureMemory, AnotherSetOrAnythingElseIsNotShared) {
  const auto fd = PictureMemory::create();
  ASSERT_TRUE(fd);
  const auto mine = open(fd->get(), 4);
  mine->keep(0, picture(2, 2, 1));
  EXPECT_FALSE(open(fd->get(), 4, 2 * kRoom)->find(0));
  EXPECT_FALSE(open(fd->get(), 4000)->find(0));
  EXPECT_FALSE(open(STDERR_FILENO)->find(0));
  EXPECT_FALSE(open(987'654)->find(0));
  EXPECT_EQ(level(*mine, 0), 1);
  EXPECT_NE(::ftruncate(fd->get(), 0), 0) << "sealed";
}

TEST(PictureMemory, WhatABrokenPeerWritesIsNoPicture) {
  const auto fd = PictureMemory::create();
  ASSERT_TRUE(fd);
  const auto memory = open(fd->get());
  memory->keep(1, picture(4, 4, 6));
  const auto size = static_cast<size_t>(::lseek(fd->get(), 0, SEEK_END));
  void* raw = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(raw, MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(raw);
  const auto poke = [bytes](uint64_t at, auto value) {
    std::memcpy(bytes + at, &value, sizeof(value));
  };
  uint64_t good = 0;
  std::memcpy(&good, bytes + kSlotAt + 8, sizeof(good));
  for (const uint64_t offset : {uint64_t{1}, uint64_t{8}, kSlotAt, good + 1, uint64_t{size} - 8,
                                uint64_t{size}, ~uint64_t{0}, ~uint64_t{0} - 127}) {
    poke(kSlotAt, offset);
    EXPECT_FALSE(memory->find(0)) << offset;
  }
  for (const uint32_t side : {0U, 200U, 1U << 20, ~0U}) {
    poke(good, side);
    EXPECT_FALSE(side != 200U && memory->find(1)) << side;
    poke(good + 4, 1U << 20);
    EXPECT_FALSE(memory->find(1)) << side;
    poke(good + 4, 4U);
  }
  poke(good, 4U);
  poke(good + 8, 2U);
  EXPECT_FALSE(memory->find(1)) << "two channels";
  poke(uint64_t{0}, ~uint64_t{0});  // used
  EXPECT_FALSE(memory->has_room({1, 1}));
  memory->keep(3, picture(1, 1, 1));
  EXPECT_FALSE(memory->find(3));
  ::munmap(raw, size);
}

}  // namespace
}  // namespace npu::data
