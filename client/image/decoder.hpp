// The bytes of an image file to RGB pixels, bit-equal to Pillow's Image.open(file).convert("RGB"),
// or a sentence that names the file. JPEG, PNG, WebP, TIFF, BMP, PPM/PGM/PBM, told apart by their
// first bytes, never by name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/image/types.hpp"
#include "shm/base/error.hpp"

namespace npu::image {

/// Pillow's limit against decompression bombs, in pixels.
inline constexpr uint64_t kMaxPixels = 178'956'970;
/// Of width and height, as in libpng: libraries keep rows, whose cost the pixels do not bound.
inline constexpr int kMaxSide = 1'000'000;
/// Bytes of a file that is read at all.
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

/// What was wrong with a file: for counting, and for one warning a kind.
enum class Fault : uint8_t {
  kNone,
  kEmpty,        ///< no bytes
  kNotAnImage,   ///< none of the known formats (a text file named .jpg)
  kTruncated,    ///< ends early
  kDamaged,      ///< header or data contradict the format
  kUnsupported,  ///< a variant that is not converted (see docs/design/010-images.md)
  kTooLarge,     ///< more than max_pixels, or than kMaxSide
  kUnreadable,   ///< no regular file, or the system would not read it
};
inline constexpr size_t kFaults = 8;
/// "truncated", ... as in a summary: "3 truncated images".
[[nodiscard]] std::string_view fault_name(Fault fault) noexcept;

struct DecoderOptions {
  bool apply_exif = false;  ///< turn by the EXIF orientation, as PIL.ImageOps.exif_transpose
  uint64_t max_pixels = kMaxPixels;
};

class Codec;

/// One picture after another. Thread: one at a time; make one a worker. Buffers are kept between
/// pictures. The bytes given to open() must stay until the last decode() of that picture.
class Decoder {
 public:
  explicit Decoder(DecoderOptions options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Parses the header; the size is the one after turning. Errors, all naming the file: data_loss
  /// (empty, no image, truncated, damaged), unimplemented (a variant that is not converted),
  /// resource_exhausted (too large). fault() says the same for a program.
  [[nodiscard]] Result<Size> open(std::span<const uint8_t> bytes, std::string_view file_name);

  /// Pixels of at least `needed`, a part of the opened picture: `out.region` covers it, three
  /// channels. Bit-equal to that part of a full decode, and refused or not, whatever the box.
  /// Errors: as open; a box outside the picture is invalid_argument. Cost: what the box needs for
  /// baseline JPEG; the whole picture for the others.
  [[nodiscard]] Result<void> decode(const Box& needed, Image& out);

  /// Of the last open() or decode() that failed.
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  /// "JPEG", "PNG", ... of the opened picture.
  [[nodiscard]] std::string_view format() const noexcept;

 private:
  [[nodiscard]] tl::unexpected<Error> refused(Fault fault, std::string_view reason);

  DecoderOptions options_;
  std::vector<std::unique_ptr<Codec>> codecs_;
  Codec* codec_ = nullptr;
  std::string file_name_;
  Size stored_;          // as in the file
  int orientation_ = 1;  // applied; 1..8
  Fault fault_ = Fault::kNone;
  Image unturned_;
};

/// Whole file into a reused buffer. Errors: not a regular file (a folder), unreadable, larger than
/// kMaxFileBytes; each names the path. Zero bytes are no error here: Decoder::open says so.
[[nodiscard]] Result<void> read_file(const std::string& path, std::vector<uint8_t>& out);

}  // namespace npu::image
