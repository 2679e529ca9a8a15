// Fuzzes everything between the bytes of an image file and a crop: whatever is in the file,
// decoding ends with pixels or a refusal; a part has the bits of the whole, and is refused with it.
//
// Input: eight bytes of options (EXIF, a box in 256ths of the picture, the size to scale to), then
// the file.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "client/image/decoder.hpp"
#include "client/image/kernels/kernels.hpp"
#include "client/image/resize.hpp"

namespace npu::image {

extern const ResizeKernels kPlainResize;
const ResizeKernels& default_resize_kernels() { return kPlainResize; }

}  // namespace npu::image

namespace npu::fuzz {
namespace {

constexpr size_t kOptionBytes = 8;
// Small, so that an input is quick; limits are tested elsewhere.
constexpr uint64_t kMaxPixels = 1 << 16;

using image::Box;
using image::Image;
using image::Size;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// The part of 0..size-1 between two 256ths.
void part_of(int size, int from, int to, int& begin, int& count) {
  if (from > to) std::swap(from, to);
  begin = size * from / 256;
  count = std::max(1, size * to / 256 - begin);
}

void compare(const Image& all, const Image& part, const Box& box) {
  if (!part.region.covers(box)) fail("the region does not cover what was asked for");
  for (int y = box.top; y < box.bottom(); ++y) {
    if (std::memcmp(all.at(y, box.left), part.at(y, box.left),
                    size_t{3} * static_cast<unsigned>(box.width)) != 0) {
      fail("a part differs from the whole");
    }
  }
}

void run(std::span<const uint8_t> options, std::span<const uint8_t> file) {
  static image::Decoder plain({.max_pixels = kMaxPixels});
  static image::Decoder turning({.apply_exif = true, .max_pixels = kMaxPixels});
  static Image all;
  static Image part;
  image::Decoder& decoder = (options[0] & 1) != 0 ? turning : plain;
  const auto opened = decoder.open(file, "fuzz");
  if (!opened) return;
  const Size size = *opened;
  if (static_cast<uint64_t>(size.width) * static_cast<uint64_t>(size.height) > kMaxPixels) {
    fail("larger than the limit");
  }
  Box box;
  part_of(size.height, options[1], options[2], box.top, box.height);
  part_of(size.width, options[3], options[4], box.left, box.width);
  const bool decoded = decoder.decode(whole(size), all).has_value();
  if (decoder.decode(box, part).has_value() != decoded) fail("accepted in parts only");
  if (!decoded) return;
  compare(all, part, box);
  const image::ResizePlan plan =
      image::resize_crop(box, {1 + options[5] % 64, 1 + options[6] % 64});
  std::vector<uint8_t> bytes(size_t{3} * static_cast<size_t>(plan.to.width * plan.to.height));
  static image::Resizer resizer(image::kPlainResize);
  resizer.resize(part, plan, bytes);
  std::vector<float> floats(bytes.size());
  resize_tf(part, plan, floats);
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < npu::fuzz::kOptionBytes) return 0;
  const std::span<const uint8_t> input(data, size);
  npu::fuzz::run(input.first(npu::fuzz::kOptionBytes), input.subspan(npu::fuzz::kOptionBytes));
  return 0;
}
