// Pattern: a coarse grid of random values a class, interpolated to the image size. Sample: half
// pattern, half noise, so that neither one pixel nor the mean gives the class away.
#include "client/data/synthetic.hpp"

#include <fmt/format.h>

#include "client/data/keyed_random.hpp"

namespace npu::data {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
constexpr int kGrid = 4;  // cells a side; the pattern has (kGrid + 1)^2 corners
constexpr uint64_t kPatternKey = 0;
constexpr uint64_t kTrainKey = 1;
constexpr uint64_t kValKey = 2;

unsigned corner(uint64_t seed, int32_t label, int y, int x, int channel) {
  const int position = (y * (kGrid + 1) + x) * kMaxChannels + channel;
  return static_cast<unsigned>(
      keyed_random(seed, kPatternKey,
                   static_cast<uint64_t>(label) << 32 | static_cast<uint64_t>(position)) &
      0xff);
}

// Bilinear, fixed point: positions in 1/256 of a cell.
void make_pattern(uint64_t seed, int32_t label, const ImageShape& shape,
                  std::vector<uint8_t>& out) {
  out.resize(shape.elements());
  size_t i = 0;
  for (int y = 0; y < shape.height; ++y) {
    const int fy = y * kGrid * 256 / shape.height;
    for (int x = 0; x < shape.width; ++x) {
      const int fx = x * kGrid * 256 / shape.width;
      const auto wy = static_cast<unsigned>(fy & 255);
      const auto wx = static_cast<unsigned>(fx & 255);
      for (int c = 0; c < shape.channels; ++c) {
        const unsigned top = corner(seed, label, fy >> 8, fx >> 8, c) * (256 - wx) +
                             corner(seed, label, fy >> 8, (fx >> 8) + 1, c) * wx;
        const unsigned bottom = corner(seed, label, (fy >> 8) + 1, fx >> 8, c) * (256 - wx) +
                                corner(seed, label, (fy >> 8) + 1, (fx >> 8) + 1, c) * wx;
        out[i++] = static_cast<uint8_t>((top * (256 - wy) + bottom * wy) >> 16);
      }
    }
  }
}

Dataset make_split(const SyntheticOptions& options, uint64_t split, size_t samples) {
  const size_t elements = options.shape.elements();
  std::vector<uint8_t> pixels(samples * elements);
  std::vector<int32_t> labels(samples);
  std::vector<uint8_t> pattern;
  // Class by class, so that only one pattern is alive even with many classes.
  const auto classes = static_cast<size_t>(options.num_classes);
  for (size_t label = 0; label < std::min(classes, samples); ++label) {
    make_pattern(options.seed, static_cast<int32_t>(label), options.shape, pattern);
    for (size_t i = label; i < samples; i += classes) {
      labels[i] = static_cast<int32_t>(label);
      uint8_t* out = pixels.data() + i * elements;
      uint64_t noise = 0;
      const uint64_t key = keyed_random(options.seed, split, i);
      for (size_t k = 0; k < elements; ++k) {
        noise = k % 8 == 0 ? mix64(key + k) : noise >> 8;
        out[k] = static_cast<uint8_t>((unsigned{pattern[k]} + (noise & 0xff)) / 2);
      }
    }
  }
  return Dataset(options.shape, options.num_classes, std::move(pixels), std::move(labels));
}

}  // namespace

Result<DatasetPair> make_synthetic(const SyntheticOptions& options) {
  const size_t most = std::max(options.train_samples, options.val_samples);
  if (most > kMaxBytes / options.shape.elements()) {
    return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                     "make synthetic data: {} images of {} bytes exceed 4 GiB; lower "
                     "data.train_samples, data.val_samples or data.image_size",
                     most, options.shape.elements());
  }
  DatasetPair out;
  out.train = make_split(options, kTrainKey, options.train_samples);
  out.val = make_split(options, kValKey, options.val_samples);
  out.description = fmt::format("synthetic {}x{}x{}, {} classes, {} train + {} val",
                                options.shape.height, options.shape.width, options.shape.channels,
                                options.num_classes, options.train_samples, options.val_samples);
  return out;
}

}  // namespace npu::data
