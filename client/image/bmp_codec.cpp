// Windows and OS/2 bitmaps, uncompressed. Read here because libraries take a cut file for a
// complete one and scale 5-bit samples in another way than Pillow.
#include <algorithm>

#include "client/image/codec.hpp"
#include "client/image/colour.hpp"

namespace npu::image {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeader = 12;
constexpr uint32_t kUncompressed = 0;
constexpr uint32_t kBitfields = 3;

/// Little-endian; the caller has checked that the bytes are there.
uint32_t u16(const uint8_t* p) noexcept { return p[0] | uint32_t{p[1]} << 8; }
uint32_t u32(const uint8_t* p) noexcept { return u16(p) | u16(p + 2) << 16; }

struct Masks {
  uint32_t red = 0, green = 0, blue = 0;
  bool operator==(const Masks&) const = default;
};
constexpr Masks k888{0xFF0000, 0xFF00, 0xFF};
constexpr Masks k555{0x7C00, 0x3E0, 0x1F};
constexpr Masks k565{0xF800, 0x7E0, 0x1F};
// Blue first is the usual order; these two occur as well.
constexpr Masks kShifted{0xFF000000, 0xFF0000, 0xFF00};
constexpr Masks kRedFirst{0xFF, 0xFF00, 0xFF0000};

class BmpCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "BMP"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    return starts_with(bytes, "BM");
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  Outcome<void> read_info(uint64_t max_pixels);
  Outcome<void> check_layout(uint32_t compression);
  void read_palette(uint32_t info_bytes, uint32_t colours);
  [[nodiscard]] size_t data_begin(uint32_t info_bytes, uint32_t colours, bool masks) const noexcept;
  void read_row(const uint8_t* in, uint8_t* rgb);
  [[nodiscard]] size_t row_bytes() const noexcept {
    return (static_cast<size_t>(size_.width) * bits_ + 31) / 32 * 4;
  }

  std::span<const uint8_t> bytes_;
  Size size_;
  bool top_down_ = false;
  uint32_t bits_ = 24;
  Masks masks_;
  size_t data_ = 0;  // where pixels begin
  Palette palette_{};
  std::vector<uint8_t> indices_;  // a row
};

Outcome<void> BmpCodec::check_layout(uint32_t compression) {
  if (compression != kUncompressed && compression != kBitfields) {
    return refuse(Fault::kUnsupported, "compression {}, expected none", compression);
  }
  masks_ = bits_ == 16 ? k555 : k888;
  if (compression == kBitfields) {
    if (bits_ < 16) return refuse(Fault::kUnsupported, "colour masks with {} bits", bits_);
    const size_t at = kFileHeaderBytes + 40;  // behind a short header, or part of a long one
    if (bytes_.size() < at + 12) return refuse(Fault::kTruncated, "the file ends in its header");
    masks_ = {u32(&bytes_[at]), u32(&bytes_[at + 4]), u32(&bytes_[at + 8])};
    if (masks_ == Masks{}) masks_ = k888;
  }
  const bool known = bits_ == 16   ? masks_ == k555 || masks_ == k565
                     : bits_ == 32 ? masks_ == k888 || masks_ == kShifted || masks_ == kRedFirst
                                   : masks_ == k888;
  if (!known) {
    return refuse(Fault::kUnsupported, "colour masks {:x}, {:x}, {:x} with {} bits", masks_.red,
                  masks_.green, masks_.blue, bits_);
  }
  return {};
}

void BmpCodec::read_palette(uint32_t info_bytes, uint32_t colours) {
  palette_ = grey_ramp();
  const size_t entry = info_bytes == kCoreHeader ? 3 : 4;
  const size_t first = kFileHeaderBytes + info_bytes;
  for (size_t i = 0; i < std::min<size_t>(colours, 256); ++i) {
    const size_t at = first + i * entry;
    if (at + 3 > bytes_.size()) break;
    palette_[i] = {bytes_[at + 2], bytes_[at + 1], bytes_[at]};
  }
}

/// Some writers leave the offset 0, or at the palette. Source: Pillow's BmpImageFile._bitmap.
size_t BmpCodec::data_begin(uint32_t info_bytes, uint32_t colours, bool masks) const noexcept {
  const size_t header = kFileHeaderBytes + info_bytes;
  const size_t offset = u32(&bytes_[10]);
  const bool indexed = bits_ <= 8;
  if (offset == header && indexed) return offset + size_t{4} * colours;
  if (offset != 0) return offset;
  const size_t entry = info_bytes == kCoreHeader ? 3 : 4;
  return header + (indexed ? entry * colours : 0) + (masks && info_bytes == 40 ? 12 : 0);
}

Outcome<void> BmpCodec::read_info(uint64_t max_pixels) {
  const auto cut = [] { return refuse(Fault::kTruncated, "the file ends in its header"); };
  if (bytes_.size() < kFileHeaderBytes + 4) return cut();
  const uint32_t info_bytes = u32(&bytes_[kFileHeaderBytes]);
  const bool core = info_bytes == kCoreHeader;
  if (!core && info_bytes != 40 && info_bytes != 64 && info_bytes != 108 && info_bytes != 124) {
    return refuse(Fault::kUnsupported, "a header of {} bytes", info_bytes);
  }
  if (bytes_.size() < kFileHeaderBytes + info_bytes) return cut();
  const uint8_t* info = &bytes_[kFileHeaderBytes];
  const auto height = core ? int64_t{u16(info + 6)} : int64_t{static_cast<int32_t>(u32(info + 8))};
  top_down_ = height < 0;
  const auto size =
      checked_size(core ? u16(info + 4) : int64_t{static_cast<int32_t>(u32(info + 4))},
                   top_down_ ? -height : height, max_pixels);
  if (!size) return tl::unexpected(size.error());
  size_ = *size;
  bits_ = u16(info + (core ? 10 : 14));
  if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32) {
    return refuse(Fault::kUnsupported, "{} bits a pixel", bits_);
  }
  const uint32_t compression = core ? kUncompressed : u32(info + 16);
  if (auto layout = check_layout(compression); !layout) return layout;
  uint32_t colours = core ? 0 : u32(info + 32);
  if (colours == 0 && bits_ <= 8) colours = 1u << bits_;
  if (bits_ <= 8) read_palette(info_bytes, colours);
  data_ = data_begin(info_bytes, colours, compression == kBitfields);
  return {};
}

Outcome<Header> BmpCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  bytes_ = bytes;
  if (auto info = read_info(options.max_pixels); !info) return tl::unexpected(info.error());
  // Some writers leave out what pads the last row.
  const size_t last_row = (static_cast<size_t>(size_.width) * bits_ + 7) / 8;
  const size_t need = row_bytes() * static_cast<size_t>(size_.height - 1) + last_row;
  if (data_ > bytes.size() || bytes.size() - data_ < need) {
    return refuse(Fault::kTruncated, "{} bytes, pixels need {} from byte {} on", bytes.size(), need,
                  data_);
  }
  return Header{size_, 1, false};
}

void BmpCodec::read_row(const uint8_t* in, uint8_t* rgb) {
  const auto width = static_cast<size_t>(size_.width);
  if (bits_ <= 8) {
    indices_.resize(width + 8);
    const uint8_t* indices = in;
    if (bits_ < 8) {
      unpack_bits(in, static_cast<int>(bits_), width, indices_.data());
      indices = indices_.data();
    }
    palette_to_rgb(indices, palette_, width, rgb);
    return;
  }
  if (bits_ == 16) {
    const uint32_t green = masks_ == k565 ? 63 : 31;
    const int above_green = masks_ == k565 ? 11 : 10;
    for (size_t i = 0; i < width; ++i, rgb += 3) {
      const uint32_t pixel = u16(in + 2 * i);
      rgb[0] = static_cast<uint8_t>((pixel >> above_green & 31) * 255 / 31);
      rgb[1] = static_cast<uint8_t>((pixel >> 5 & green) * 255 / green);
      rgb[2] = static_cast<uint8_t>((pixel & 31) * 255 / 31);
    }
    return;
  }
  const size_t step = bits_ / 8;
  const size_t red = masks_ == kShifted ? 3 : masks_ == kRedFirst ? 0 : 2;
  const size_t blue = masks_ == kShifted ? 1 : masks_ == kRedFirst ? 2 : 0;
  const size_t green = masks_ == kShifted ? 2 : 1;
  for (size_t i = 0; i < width; ++i, in += step, rgb += 3) {
    rgb[0] = in[red];
    rgb[1] = in[green];
    rgb[2] = in[blue];
  }
}

Outcome<void> BmpCodec::decode(const Box& /*needed*/, Image& out) {
  out.shape(whole(size_), 3);
  for (int y = 0; y < size_.height; ++y) {
    const int stored = top_down_ ? y : size_.height - 1 - y;
    read_row(bytes_.data() + data_ + static_cast<size_t>(stored) * row_bytes(), out.row(y));
  }
  return {};
}

}  // namespace

std::unique_ptr<Codec> make_bmp_codec() { return std::make_unique<BmpCodec>(); }

}  // namespace npu::image
