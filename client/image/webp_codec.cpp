// WebP by libwebp. Of an animation the first frame on its canvas, as Pillow; a still picture
// without the two canvases the animation decoder would keep, to the same bits.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "client/image/codec.hpp"
#include "client/image/orientation.hpp"

namespace npu::image {
namespace {

struct FreeDemuxer {
  void operator()(WebPDemuxer* demuxer) const noexcept { WebPDemuxDelete(demuxer); }
};
struct FreeAnimation {
  void operator()(WebPAnimDecoder* decoder) const noexcept { WebPAnimDecoderDelete(decoder); }
};

class WebpCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "WebP"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    return bytes.size() >= 12 && starts_with(bytes, "RIFF") &&
           starts_with(bytes.subspan(8), "WEBP");
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  Outcome<void> decode_still(Image& out) const;
  Outcome<void> decode_first_frame(Image& out) const;

  WebPData data_{};
  Size size_;
  bool animated_ = false;
};

int orientation_of(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    std::span<const uint8_t> exif(chunk.chunk.bytes, chunk.chunk.size);
    constexpr std::string_view kPrefix("Exif\0\0", 6);  // some writers keep JPEG's
    if (starts_with(exif, kPrefix)) exif = exif.subspan(kPrefix.size());
    orientation = exif_orientation(exif);
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

Outcome<Header> WebpCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  data_ = {bytes.data(), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, FreeDemuxer> demuxer(WebPDemuxPartial(&data_, &state));
  if (state == WEBP_DEMUX_PARSE_ERROR) {
    return refuse(Fault::kDamaged, "its chunks do not parse");
  }
  if (!demuxer || state != WEBP_DEMUX_DONE) {
    return refuse(Fault::kTruncated, "the file ends within its data");
  }
  const auto size =
      checked_size(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH),
                   WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT), options.max_pixels);
  if (!size) return tl::unexpected(size.error());
  size_ = *size;
  animated_ = (WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ANIMATION_FLAG) != 0;
  return Header{size_, orientation_of(demuxer.get()), false};
}

Outcome<void> WebpCodec::decode_still(Image& out) const {
  Size size;
  if (WebPGetInfo(data_.bytes, data_.size, &size.width, &size.height) == 0 || size != size_) {
    return refuse(Fault::kDamaged, "its headers contradict each other");
  }
  out.shape(whole(size_), 3);
  if (WebPDecodeRGBInto(data_.bytes, data_.size, out.pixels.data(), out.pixels.size(),
                        static_cast<int>(out.stride())) == nullptr) {
    return refuse(Fault::kDamaged, "its pixels do not decode");
  }
  return {};
}

Outcome<void> WebpCodec::decode_first_frame(Image& out) const {
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_RGBA;
  options.use_threads = 0;
  const std::unique_ptr<WebPAnimDecoder, FreeAnimation> decoder(
      WebPAnimDecoderNew(&data_, &options));
  if (!decoder) return refuse(Fault::kDamaged, "its header does not parse");
  uint8_t* rgba = nullptr;
  int timestamp = 0;
  if (WebPAnimDecoderGetNext(decoder.get(), &rgba, &timestamp) == 0) {
    return refuse(Fault::kDamaged, "its first frame does not decode");
  }
  out.shape(whole(size_), 3);
  const size_t pixels = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.height);
  uint8_t* rgb = out.pixels.data();
  for (size_t i = 0; i < pixels; ++i) std::copy_n(rgba + 4 * i, 3, rgb + 3 * i);
  return {};
}

Outcome<void> WebpCodec::decode(const Box& /*needed*/, Image& out) {
  return animated_ ? decode_first_frame(out) : decode_still(out);
}

}  // namespace

std::unique_ptr<Codec> make_webp_codec() { return std::make_unique<WebpCodec>(); }

}  // namespace npu::image
