// The first page of a TIFF by libtiff: samples are gathered as stored, 8 bits each and interleaved,
// then converted as Pillow does.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "client/image/codec.hpp"
#include "client/image/colour.hpp"

namespace npu::image {
namespace {

constexpr size_t kMaxSamples = 6;  // of a pixel
constexpr tmsize_t kMaxOneAllocation = tmsize_t{1} << 30;
constexpr uint64_t kMaxTileBytes = uint64_t{64} << 20;  // of a picture that is no larger itself

/// The file in memory, as libtiff reads it.
struct Stream {
  std::span<const uint8_t> bytes;
  uint64_t at = 0;
  bool ended = false;  // more was asked for than there is
  std::array<char, 200> first_error{};
};

Stream& stream_of(thandle_t handle) { return *static_cast<Stream*>(handle); }

tmsize_t on_read(thandle_t handle, void* out, tmsize_t count) {
  Stream& stream = stream_of(handle);
  if (count <= 0) return 0;
  const uint64_t rest = stream.at < stream.bytes.size() ? stream.bytes.size() - stream.at : 0;
  const auto n = std::min<size_t>(static_cast<size_t>(count), rest);
  if (n < static_cast<size_t>(count)) stream.ended = true;
  if (n == 0) return 0;
  std::memcpy(out, stream.bytes.data() + stream.at, n);
  stream.at += n;
  return static_cast<tmsize_t>(n);
}

tmsize_t on_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t on_seek(thandle_t handle, toff_t offset, int whence) {
  Stream& stream = stream_of(handle);
  const uint64_t base = whence == SEEK_CUR   ? stream.at
                        : whence == SEEK_END ? stream.bytes.size()
                                             : 0;
  stream.at = base + offset;
  return stream.at;
}

int on_close(thandle_t) { return 0; }
toff_t on_size(thandle_t handle) { return stream_of(handle).bytes.size(); }

int on_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto& text = static_cast<Stream*>(user)->first_error;
  if (text[0] == '\0') std::vsnprintf(text.data(), text.size(), format, arguments);
  return 1;  // handled: nothing is printed
}

int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const noexcept { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const noexcept { TIFFOpenOptionsFree(options); }
};
using TiffHandle = std::unique_ptr<TIFF, CloseTiff>;

TiffHandle open_stream(Stream& stream) {
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxOneAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &stream);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, &stream);
  return TiffHandle(TIFFClientOpenExt("image", "rm", &stream, on_read, on_write, on_seek, on_close,
                                      on_size, nullptr, nullptr, options.get()));
}

/// How pixels are stored.
struct Layout {
  Size size;
  uint16_t samples = 1;
  uint16_t colours = 1;  // samples that are looked at; others follow them
  uint16_t bits = 1;
  uint16_t photometric = 0;
  uint16_t compression = 0;
  bool planes = false;
};

class TiffCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "TIFF"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    using namespace std::string_view_literals;
    return starts_with(bytes, "II*\0"sv) || starts_with(bytes, "MM\0*"sv) ||
           starts_with(bytes, "II+\0"sv) || starts_with(bytes, "MM\0+"sv);
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  Outcome<void> read_layout(TIFF* tiff, uint64_t max_pixels);
  Outcome<void> check_colours(TIFF* tiff);
  Outcome<void> read_samples(TIFF* tiff, const Stream& stream);
  bool read_strips(TIFF* tiff, uint16_t plane);
  bool read_tiles(TIFF* tiff, uint16_t plane);
  void store(const uint8_t* in, int row, int column, int count, uint16_t plane);
  void to_rgb(TIFF* tiff, uint8_t* rgb);

  std::span<const uint8_t> bytes_;
  Layout layout_;
  std::vector<uint8_t> block_;    // a row or a tile as libtiff gives it
  std::vector<uint8_t> samples_;  // the picture's colours, interleaved, a byte each
};

tl::unexpected<Refusal> failed(const Stream& stream, const char* otherwise) {
  const bool known = stream.first_error[0] != '\0';
  return refuse(stream.ended ? Fault::kTruncated : Fault::kDamaged, "{}",
                known ? stream.first_error.data() : otherwise);
}

/// What libtiff decodes within limits, to the same bits each time. Not LZMA, whose dictionary may
/// be of 4 GiB, nor WebP, whose damaged rows show what was in memory, nor what nobody writes any
/// more.
bool known_compression(uint16_t compression) noexcept {
  constexpr std::array<uint16_t, 10> kKnown = {
      COMPRESSION_NONE,    COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3, COMPRESSION_CCITTFAX4,
      COMPRESSION_LZW,     COMPRESSION_JPEG,     COMPRESSION_PACKBITS,  COMPRESSION_ADOBE_DEFLATE,
      COMPRESSION_DEFLATE, COMPRESSION_ZSTD};
  return std::find(kKnown.begin(), kKnown.end(), compression) != kKnown.end();
}

Outcome<void> TiffCodec::check_colours(TIFF* tiff) {
  Layout& l = layout_;
  uint16_t format = SAMPLEFORMAT_UINT;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
  uint16_t extras = 0;
  const uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
  for (uint16_t i = 0; i < extras; ++i) {
    if (kinds[i] == EXTRASAMPLE_ASSOCALPHA) {
      return refuse(Fault::kUnsupported, "colours multiplied by alpha");
    }
  }
  const bool grey =
      l.photometric == PHOTOMETRIC_MINISBLACK || l.photometric == PHOTOMETRIC_MINISWHITE;
  const bool rgb =
      l.photometric == PHOTOMETRIC_RGB ||
      (l.photometric == PHOTOMETRIC_YCBCR && l.compression == COMPRESSION_JPEG && !l.planes);
  const bool inks = l.photometric == PHOTOMETRIC_SEPARATED;
  const bool indexed = l.photometric == PHOTOMETRIC_PALETTE;
  l.colours = rgb ? 3 : inks ? 4 : 1;
  const bool depth =
      l.bits == 8 || (l.bits == 16 && rgb) || (l.bits == 1 && (grey || indexed) && l.samples == 1);
  if (format != SAMPLEFORMAT_UINT || !depth || !(grey || rgb || inks || indexed) ||
      l.samples < l.colours || l.samples > kMaxSamples) {
    return refuse(Fault::kUnsupported,
                  "photometric {}, {} samples of {} bits, format {}; expected 8-bit grey, RGB, "
                  "palette or CMYK",
                  l.photometric, l.samples, l.bits, format);
  }
  return {};
}

Outcome<void> TiffCodec::read_layout(TIFF* tiff, uint64_t max_pixels) {
  uint32_t width = 0;
  uint32_t height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  const auto size = checked_size(width, height, max_pixels);
  if (!size) return tl::unexpected(size.error());
  layout_ = {};
  layout_.size = *size;
  uint16_t planes = PLANARCONFIG_CONTIG;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout_.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout_.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout_.compression);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planes);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &layout_.photometric);
  layout_.planes = planes == PLANARCONFIG_SEPARATE;
  if (!known_compression(layout_.compression)) {
    return refuse(Fault::kUnsupported,
                  "compression {}, expected none, CCITT, LZW, JPEG, PackBits, Deflate or Zstandard",
                  layout_.compression);
  }
  if (layout_.photometric == PHOTOMETRIC_YCBCR && layout_.compression == COMPRESSION_JPEG) {
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  return check_colours(tiff);
}

Outcome<Header> TiffCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  bytes_ = bytes;
  Stream stream{bytes};
  const TiffHandle tiff = open_stream(stream);
  if (!tiff) return failed(stream, "its directory does not parse");
  if (auto layout = read_layout(tiff.get(), options.max_pixels); !layout) {
    return tl::unexpected(layout.error());
  }
  uint16_t orientation = 1;
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_ORIENTATION, &orientation);
  const bool known = orientation >= 1 && orientation <= 8;
  return Header{layout_.size, known ? orientation : 1, true};
}

/// Puts `count` pixels of one block row where they belong.
void TiffCodec::store(const uint8_t* in, int row, int column, int count, uint16_t plane) {
  const size_t colours = layout_.colours;
  if (layout_.planes && plane >= colours) return;
  const auto pixels = static_cast<size_t>(count);
  uint8_t* out =
      samples_.data() + (static_cast<size_t>(row) * static_cast<size_t>(layout_.size.width) +
                         static_cast<size_t>(column)) *
                            colours;
  if (layout_.bits == 1) {
    unpack_bits(in, 1, pixels, out);
    return;
  }
  const size_t bytes = layout_.bits / 8u;
  const size_t step = bytes * (layout_.planes ? 1 : layout_.samples);
  const size_t of_block = layout_.planes ? 1 : colours;
  // libtiff gives samples in the machine's order: the upper byte of 16 bits is the last one.
  in += bytes - 1;
  out += layout_.planes ? plane : 0;
  for (size_t i = 0; i < pixels; ++i, in += step, out += colours) {
    for (size_t c = 0; c < of_block; ++c) out[c] = in[c * bytes];
  }
}

bool TiffCodec::read_strips(TIFF* tiff, uint16_t plane) {
  const auto row_bytes = static_cast<size_t>(TIFFScanlineSize64(tiff));
  const size_t of_row =
      static_cast<size_t>(layout_.size.width) * (layout_.planes ? 1 : layout_.samples);
  if (row_bytes < (of_row * layout_.bits + 7) / 8) return false;
  block_.resize(row_bytes);
  for (int y = 0; y < layout_.size.height; ++y) {
    if (TIFFReadScanline(tiff, block_.data(), static_cast<uint32_t>(y), plane) < 0) return false;
    store(block_.data(), y, 0, layout_.size.width, plane);
  }
  return true;
}

bool TiffCodec::read_tiles(TIFF* tiff, uint16_t plane) {
  uint32_t width = 0;
  uint32_t height = 0;
  TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_TILELENGTH, &height);
  const auto bytes = static_cast<uint64_t>(TIFFTileSize64(tiff));
  const auto row_bytes = static_cast<uint64_t>(TIFFTileRowSize64(tiff));
  const uint64_t of_row = uint64_t{width} * (layout_.planes ? 1 : layout_.samples);
  const uint64_t stored = samples_.size() / layout_.colours * layout_.samples;
  const uint64_t most = std::max<uint64_t>(kMaxTileBytes, 2 * stored);
  if (width == 0 || height == 0 || bytes == 0 || bytes > most ||
      row_bytes < (of_row * layout_.bits + 7) / 8 || row_bytes * height > bytes) {
    return false;
  }
  block_.resize(bytes);
  const Size size = layout_.size;
  for (uint32_t y = 0; y < static_cast<uint32_t>(size.height); y += height) {
    for (uint32_t x = 0; x < static_cast<uint32_t>(size.width); x += width) {
      if (TIFFReadTile(tiff, block_.data(), x, y, 0, plane) < 0) return false;
      const int rows = static_cast<int>(std::min(height, static_cast<uint32_t>(size.height) - y));
      const int columns = static_cast<int>(std::min(width, static_cast<uint32_t>(size.width) - x));
      for (int r = 0; r < rows; ++r) {
        store(block_.data() + static_cast<size_t>(r) * row_bytes, static_cast<int>(y) + r,
              static_cast<int>(x), columns, plane);
      }
    }
  }
  return true;
}

Outcome<void> TiffCodec::read_samples(TIFF* tiff, const Stream& stream) {
  const size_t pixels =
      static_cast<size_t>(layout_.size.width) * static_cast<size_t>(layout_.size.height);
  give_back(block_, 0);
  give_back(samples_, pixels * layout_.colours);
  samples_.resize(pixels * layout_.colours);
  const uint16_t planes = layout_.planes ? layout_.samples : 1;
  for (uint16_t plane = 0; plane < planes; ++plane) {
    const bool read = TIFFIsTiled(tiff) != 0 ? read_tiles(tiff, plane) : read_strips(tiff, plane);
    if (!read) return failed(stream, "its pixels do not decode");
  }
  return {};
}

void TiffCodec::to_rgb(TIFF* tiff, uint8_t* rgb) {
  const Layout& l = layout_;
  const size_t pixels = static_cast<size_t>(l.size.width) * static_cast<size_t>(l.size.height);
  if (l.photometric == PHOTOMETRIC_SEPARATED) {
    cmyk_to_rgb(samples_.data(), false, pixels, rgb);
    return;
  }
  if (l.photometric == PHOTOMETRIC_RGB || l.photometric == PHOTOMETRIC_YCBCR) {
    std::copy_n(samples_.data(), 3 * pixels, rgb);
    return;
  }
  Palette palette = grey_ramp();
  if (l.bits == 1) palette[1] = {255, 255, 255};
  uint16_t* maps[3] = {};
  if (l.photometric == PHOTOMETRIC_PALETTE &&
      TIFFGetField(tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) != 0) {
    for (size_t i = 0; i < (size_t{1} << l.bits); ++i) {
      for (size_t c = 0; c < 3; ++c) palette[i][c] = static_cast<uint8_t>(maps[c][i] >> 8);
    }
  } else if (l.photometric == PHOTOMETRIC_MINISWHITE) {
    if (l.bits == 1) {
      std::swap(palette[0], palette[1]);
    } else {
      std::reverse(palette.begin(), palette.end());
    }
  }
  palette_to_rgb(samples_.data(), palette, pixels, rgb);
}

Outcome<void> TiffCodec::decode(const Box& /*needed*/, Image& out) {
  Stream stream{bytes_};
  const TiffHandle tiff = open_stream(stream);
  if (!tiff) return failed(stream, "its directory does not parse");
  // Again, because the handle is new and wants its colour mode.
  if (auto layout = read_layout(tiff.get(), kMaxPixels); !layout) return layout;
  if (auto read = read_samples(tiff.get(), stream); !read) return read;
  out.shape(whole(layout_.size), 3);
  to_rgb(tiff.get(), out.pixels.data());
  return {};
}

}  // namespace

std::unique_ptr<Codec> make_tiff_codec() { return std::make_unique<TiffCodec>(); }

}  // namespace npu::image
