// One image format behind the decoder. Codecs do not know file names: they say what is wrong, the
// decoder makes a sentence of it.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "client/image/decoder.hpp"
#include "client/image/types.hpp"

namespace npu::image {

/// Why a picture is not converted; `reason` completes "<file>: <fault>: ...".
struct Refusal {
  Fault fault = Fault::kDamaged;
  std::string reason;
};

template <typename T>
using Outcome = tl::expected<T, Refusal>;

template <typename... Args>
[[nodiscard]] tl::unexpected<Refusal> refuse(Fault fault, fmt::format_string<Args...> text,
                                             Args&&... args) {
  return tl::unexpected<Refusal>(Refusal{fault, fmt::format(text, std::forward<Args>(args)...)});
}

/// What a file says about itself.
struct Header {
  Size size;  ///< as stored, before turning
  int orientation = 1;
  bool always_turned = false;  ///< the orientation counts whether or not EXIF is applied
};

/// Thread: one at a time. decode() belongs to the last open(), and may be called again.
class Codec {
 public:
  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual bool recognises(std::span<const uint8_t> bytes) const noexcept = 0;
  /// `bytes` stay valid until the last decode().
  [[nodiscard]] virtual Outcome<Header> open(std::span<const uint8_t> bytes,
                                             const DecoderOptions& options) = 0;
  /// `needed` lies within the stored picture. RGB out; the region may be larger than asked.
  [[nodiscard]] virtual Outcome<void> decode(const Box& needed, Image& out) = 0;
};

[[nodiscard]] std::unique_ptr<Codec> make_jpeg_codec();
[[nodiscard]] std::unique_ptr<Codec> make_png_codec();
[[nodiscard]] std::unique_ptr<Codec> make_webp_codec();
[[nodiscard]] std::unique_ptr<Codec> make_tiff_codec();
[[nodiscard]] std::unique_ptr<Codec> make_bmp_codec();
[[nodiscard]] std::unique_ptr<Codec> make_pnm_codec();

/// Both sides positive, at most kMaxSide each and `max_pixels` together.
[[nodiscard]] Outcome<Size> checked_size(int64_t width, int64_t height, uint64_t max_pixels);

[[nodiscard]] inline bool starts_with(std::span<const uint8_t> bytes, std::string_view magic) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
      .starts_with(magic);
}

}  // namespace npu::image
