// One source, several destinations: every byte arrives, nothing else changes, at any alignment.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/collectives/kernels/reduce_kernels.hpp"

namespace npu::daemon {
namespace {

constexpr std::byte kGuard{0xee};

std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 31 + i / 256);
  return out;
}

void expect_copies(size_t bytes, size_t src_shift, size_t dst_shift, bool nontemporal) {
  const auto data = pattern(bytes + src_shift);
  std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(bytes + 256, kGuard));
  std::byte* dst[3];
  for (size_t j = 0; j < 3; ++j) dst[j] = memory[j].data() + 64 + dst_shift * (j + 1);

  copy_slice(dst, 3, data.data() + src_shift, bytes, nontemporal);

  for (size_t j = 0; j < 3; ++j) {
    EXPECT_TRUE(
        std::equal(dst[j], dst[j] + bytes, data.begin() + static_cast<std::ptrdiff_t>(src_shift)));
    EXPECT_TRUE(std::all_of(memory[j].data(), dst[j], [](std::byte b) { return b == kGuard; }));
    EXPECT_TRUE(std::all_of(dst[j] + bytes, memory[j].data() + memory[j].size(),
                            [](std::byte b) { return b == kGuard; }));
  }
}

TEST(CopySlice, DeliversEveryByteAtAnyAlignmentAndSize) {
  for (const bool nontemporal : {false, true}) {
    for (const size_t bytes :
         {0, 1, 2, 63, 64, 65, 127, 200, 4095, 4096, 4097, 4159, 12345, 70001}) {
      for (const size_t dst_shift : {0, 1, 8, 17, 33}) {
        for (const size_t src_shift : {0, 2, 5}) {
          SCOPED_TRACE(::testing::Message() << bytes << " bytes, shifts " << src_shift << " and "
                                            << dst_shift << ", nontemporal " << nontemporal);
          expect_copies(bytes, src_shift, dst_shift, nontemporal);
        }
      }
    }
  }
}

TEST(CopySlice, DestinationThatIsTheSourceIsLeftAlone) {
  auto data = pattern(9000);
  const auto before = data;
  std::vector<std::byte> other(9000);
  std::byte* dst[2] = {data.data(), other.data()};
  copy_slice(dst, 2, data.data(), data.size(), true);
  EXPECT_EQ(data, before);
  EXPECT_EQ(other, before);
}

}  // namespace
}  // namespace npu::daemon
