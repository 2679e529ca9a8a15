// Once warm, nothing of ours takes memory for a picture. Counted is operator new: the libraries
// behind the codecs are in C and take theirs, for each picture, with malloc.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "client/image/decoder.hpp"
#include "client/image/resize.hpp"

namespace {
std::atomic<size_t> g_taken{0};
}  // namespace

// Out of line: inlined, GCC takes a pair of them for a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  ++g_taken;
  if (void* memory = std::malloc(size); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace npu::image {
namespace {

class WarmPictures : public testing::Test {
 protected:
  void work(const std::string& path) {
    good_ = read_file(path, bytes_).has_value();
    // The files are inputs of a fuzzer, with eight bytes of options in front.
    const auto size = decoder_.open(std::span(bytes_).subspan(8), path);
    if (!size) good_ = false;
    if (!good_) return;
    const ResizePlan plan = resize_crop(whole(*size), {16, 16});
    good_ = decoder_.decode(needed(plan), image_).has_value();
    resizer_.resize(image_, plan, pixels_);
    resize_tf(image_, plan, floats_);
  }

  bool good_ = false;
  Decoder decoder_{{.apply_exif = true}};
  Image image_;
  Resizer resizer_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> pixels_ = std::vector<uint8_t>(16 * 16 * 3);
  std::vector<float> floats_ = std::vector<float>(16 * 16 * 3);
};

TEST_F(WarmPictures, TakeNoMemory) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NPU_IMAGE_CORPUS)) {
    const std::string path = entry.path();
    work(path);
    ASSERT_TRUE(good_) << path;
    const size_t before = g_taken;
    work(path);
    EXPECT_EQ(g_taken, before) << path;
    ++files;
  }
  EXPECT_GT(files, 10u);
}

}  // namespace
}  // namespace npu::image
