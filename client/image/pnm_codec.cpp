// PPM, PGM and PBM, plain and raw. Read here because libraries scale short ranges in other ways
// than Pillow: round(value / maximum * 255), halves to even.
#include <array>
#include <cmath>
#include <limits>

#include "client/image/codec.hpp"
#include "client/image/colour.hpp"

namespace npu::image {
namespace {

constexpr bool is_space(uint8_t c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Tokens of the header and of the plain forms.
class Tokens {
 public:
  explicit Tokens(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] size_t position() const noexcept { return at_; }
  void skip(size_t count) noexcept { at_ += count; }

  /// The next decimal number, with the one blank behind it; nothing at the end or on other text.
  Outcome<uint32_t> number() {
    skip_blanks();
    const size_t first = at_;
    uint32_t value = 0;
    for (; at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9'; ++at_) {
      if (at_ - first >= 9) return refuse(Fault::kDamaged, "a number of more than nine digits");
      value = value * 10 + (bytes_[at_] - uint32_t{'0'});
    }
    if (at_ >= bytes_.size() && at_ == first) return ends();
    if (at_ == first || (at_ < bytes_.size() && !is_space(bytes_[at_]) && bytes_[at_] != '#')) {
      return refuse(Fault::kDamaged, "no number at byte {}", at_);
    }
    if (at_ < bytes_.size() && bytes_[at_] != '#') ++at_;
    return value;
  }

  /// A '0' or '1' of plain PBM, where blanks between them may be missing.
  Outcome<uint8_t> bit() {
    skip_blanks();
    if (at_ >= bytes_.size()) return ends();
    const uint8_t c = bytes_[at_++];
    if (c != '0' && c != '1') return refuse(Fault::kDamaged, "no bit at byte {}", at_ - 1);
    return static_cast<uint8_t>(c - '0');
  }

 private:
  static tl::unexpected<Refusal> ends() {
    return refuse(Fault::kTruncated, "the file ends within its data");
  }

  void skip_blanks() noexcept {
    while (at_ < bytes_.size()) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      } else if (is_space(bytes_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

class PnmCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "PNM"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    return bytes.size() > 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           is_space(bytes[2]);
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  [[nodiscard]] bool plain() const noexcept { return kind_ <= '3'; }
  [[nodiscard]] bool bitmap() const noexcept { return kind_ == '1' || kind_ == '4'; }
  [[nodiscard]] size_t channels() const noexcept { return kind_ == '3' || kind_ == '6' ? 3 : 1; }
  [[nodiscard]] uint8_t scaled(uint32_t value) const noexcept;
  Outcome<void> read_plain(uint8_t* out) const;
  void read_raw(uint8_t* out) const;

  std::span<const uint8_t> bytes_;
  char kind_ = '6';
  Size size_;
  uint32_t maximum_ = 255;
  size_t data_ = 0;  // where samples begin
};

Outcome<Header> PnmCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  bytes_ = bytes;
  kind_ = static_cast<char>(bytes[1]);
  Tokens tokens(bytes);
  tokens.skip(3);
  const auto width = tokens.number();
  if (!width) return tl::unexpected(width.error());
  const auto height = tokens.number();
  if (!height) return tl::unexpected(height.error());
  const auto size = checked_size(*width, *height, options.max_pixels);
  if (!size) return tl::unexpected(size.error());
  size_ = *size;
  maximum_ = 1;
  if (!bitmap()) {
    const auto maximum = tokens.number();
    if (!maximum) return tl::unexpected(maximum.error());
    maximum_ = *maximum;
    if (maximum_ == 0 || maximum_ > 65535) {
      return refuse(Fault::kDamaged, "its maximum is {}, expected 1..65535", maximum_);
    }
    if (maximum_ > 255 && channels() == 1) {
      return refuse(Fault::kUnsupported,
                    "grey of more than 8 bits, which PyTorch's reader clips to white above 255");
    }
  }
  data_ = tokens.position();
  const size_t samples = static_cast<size_t>(size_.width) * channels();
  const size_t row = bitmap() ? (samples + 7) / 8 : samples * (maximum_ > 255 ? 2 : 1);
  // The plain forms need a digit a sample at least.
  const size_t need = (plain() ? samples : row) * static_cast<size_t>(size_.height);
  if (bytes.size() - data_ < need) {
    return refuse(Fault::kTruncated, "{} bytes of pixels, expected at least {}",
                  bytes.size() - data_, need);
  }
  return Header{size_, 1, false};
}

/// A sample as Pillow scales it; of a bitmap, where 1 is black.
uint8_t PnmCodec::scaled(uint32_t value) const noexcept {
  if (bitmap()) return value != 0 ? 0 : 255;
  const double x = static_cast<double>(value) / maximum_ * 255;
  return static_cast<uint8_t>(std::min(255.0, std::nearbyint(x)));
}

Outcome<void> PnmCodec::read_plain(uint8_t* out) const {
  Tokens tokens(bytes_);
  tokens.skip(data_);
  const size_t samples =
      static_cast<size_t>(size_.width) * static_cast<size_t>(size_.height) * channels();
  for (size_t i = 0; i < samples; ++i) {
    uint32_t value = 0;
    if (bitmap()) {
      const auto bit = tokens.bit();
      if (!bit) return tl::unexpected(bit.error());
      value = *bit;
    } else {
      const auto number = tokens.number();
      if (!number) return tl::unexpected(number.error());
      value = *number;
      if (value > maximum_) {
        return refuse(Fault::kDamaged, "a sample of {}, its maximum is {}", value, maximum_);
      }
    }
    out[i] = scaled(value);
  }
  return {};
}

/// open() has seen that all bytes are there.
void PnmCodec::read_raw(uint8_t* out) const {
  const size_t samples = static_cast<size_t>(size_.width) * channels();
  const uint8_t* in = bytes_.data() + data_;
  std::array<uint8_t, 256> table{};
  for (uint32_t v = 0; v < 256; ++v) table[v] = scaled(v);
  for (int y = 0; y < size_.height; ++y, out += samples) {
    if (bitmap()) {
      unpack_bits(in, 1, samples, out);
      for (size_t i = 0; i < samples; ++i) out[i] = table[out[i]];
      in += (samples + 7) / 8;
    } else if (maximum_ > 255) {
      for (size_t i = 0; i < samples; ++i, in += 2) out[i] = scaled(in[0] * 256u + in[1]);
    } else {
      for (size_t i = 0; i < samples; ++i) out[i] = table[*in++];
    }
  }
}

Outcome<void> PnmCodec::decode(const Box& /*needed*/, Image& out) {
  out.shape(whole(size_), 3);
  const size_t pixels = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.height);
  // Grey goes to the last third first, from where it is spread without being overwritten.
  uint8_t* samples = out.pixels.data() + (3 - channels()) * pixels;
  if (plain()) {
    if (auto read = read_plain(samples); !read) return read;
  } else {
    read_raw(samples);
  }
  if (channels() == 1) grey_to_rgb(samples, 1, pixels, out.pixels.data());
  return {};
}

}  // namespace

std::unique_ptr<Codec> make_pnm_codec() { return std::make_unique<PnmCodec>(); }

}  // namespace npu::image
