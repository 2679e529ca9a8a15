// A value is one of 256, so the normalised float comes from a table: same bits as computing it each
// time.
#include "client/data/augment.hpp"

#include <algorithm>

#include "client/data/keyed_random.hpp"

namespace npu::data {

CropFlip draw_crop_flip(uint64_t seed, int epoch, uint64_t sample) noexcept {
  constexpr uint32_t kOffsets = 2 * kCropPad + 1;
  const uint64_t bits = keyed_random(seed, static_cast<uint64_t>(epoch), sample);
  const auto high = static_cast<uint32_t>(bits >> 32);
  const auto low = static_cast<uint32_t>(bits) & ~1u;  // the last bit is the flip's
  return CropFlip{.top = static_cast<int>(below(high, kOffsets)),
                  .left = static_cast<int>(below(low, kOffsets)),
                  .flip = (bits & 1) != 0};
}

Augmenter::Augmenter(ImageShape shape, const Normalization& normalization, config::Augment kind,
                     uint64_t seed)
    : shape_(shape), kind_(kind), seed_(seed) {
  NPU_CHECK(kind != config::Augment::kImagenet);
  NPU_CHECK(shape.channels >= 1 && shape.channels <= kMaxChannels);
  for (size_t c = 0; c < static_cast<size_t>(shape.channels); ++c) {
    for (size_t v = 0; v < 256; ++v) {
      table_[c][v] = (static_cast<float>(v) / normalization.scale - normalization.mean[c]) /
                     normalization.stddev[c];
    }
  }
}

void Augmenter::apply(std::span<const uint8_t> pixels, int epoch, uint64_t sample,
                      float* out) const {
  write(pixels,
        kind_ == config::Augment::kCifar ? draw_crop_flip(seed_, epoch, sample) : CropFlip{}, out);
}

// `count` pixels of the row from pixel `first`, forwards or mirrored, to the floats at `out`.
void Augmenter::write_row(const uint8_t* in, int first, int count, bool flip, float* out) const {
  const int channels = shape_.channels;
  const uint8_t* pixel = in + first * channels;
  if (channels == 1) {
    const Table& table = table_[0];
    if (flip) {
      for (int x = 0; x < count; ++x) out[x] = table[pixel[count - 1 - x]];
    } else {
      for (int x = 0; x < count; ++x) out[x] = table[pixel[x]];
    }
    return;
  }
  for (int x = 0; x < count; ++x) {
    const uint8_t* source = pixel + (flip ? count - 1 - x : x) * channels;
    for (int c = 0; c < channels; ++c) {
      out[x * channels + c] = table_[static_cast<size_t>(c)][source[c]];
    }
  }
}

void Augmenter::write(std::span<const uint8_t> pixels, const CropFlip& draw, float* out) const {
  NPU_CHECK(pixels.size() == shape_.elements());
  const int height = shape_.height;
  const int width = shape_.width;
  const int channels = shape_.channels;
  const int dy = draw.top - kCropPad;
  const int dx = draw.left - kCropPad;
  // Columns [first, last) of the source row are inside the crop; `lead` outputs before them are
  // padding.
  const int first = std::clamp(dx, 0, width);
  const int last = std::clamp(dx + width, 0, width);
  const int count = std::max(last - first, 0);
  const int lead = draw.flip ? std::max(dx, 0) : std::max(-dx, 0);
  const auto pad = [&](float* to, int from_x, int until_x) {
    for (int i = from_x * channels; i < until_x * channels; ++i) {
      to[i] = table_[static_cast<size_t>(i % channels)][0];
    }
  };
  for (int y = 0; y < height; ++y) {
    float* row = out + static_cast<ptrdiff_t>(y) * width * channels;
    const int source_y = y + dy;
    if (source_y < 0 || source_y >= height || count == 0) {
      pad(row, 0, width);
      continue;
    }
    pad(row, 0, lead);
    write_row(pixels.data() + static_cast<ptrdiff_t>(source_y) * width * channels, first, count,
              draw.flip, row + lead * channels);
    pad(row, lead + count, width);
  }
}

}  // namespace npu::data
