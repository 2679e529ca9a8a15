// PNG by libpng. Like in libjpeg, errors come by longjmp: no frame between guarded() and the
// library may own anything.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "client/image/codec.hpp"
#include "client/image/colour.hpp"
#include "client/image/orientation.hpp"

namespace npu::image {
namespace {

/// What libpng's callbacks see.
struct Reader {
  std::span<const uint8_t> rest;
  Fault fault = Fault::kDamaged;
  std::string text;
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  reader.text = text;
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, size_t count) {
  auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) {
    reader.fault = Fault::kTruncated;
    png_error(png, "the file ends within its data");
  }
  std::memcpy(out, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

/// The library's two structures, freed together. Not movable: libpng keeps the reader's address.
class Handle {
 public:
  explicit Handle(std::span<const uint8_t> bytes) {
    reader.rest = bytes;
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
    NPU_CHECK_MSG(png != nullptr, "no memory for libpng, or another version than compiled with");
    info = png_create_info_struct(png);
    NPU_CHECK_MSG(info != nullptr, "no memory for libpng");
    png_set_read_fn(png, &reader, on_read);
    png_set_benign_errors(png, 1);
    // These do not change pixels here, and could be large.
    static constexpr png_byte kIgnored[] = "iCCP\0tEXt\0zTXt\0iTXt\0eXIf";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kIgnored, 5);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { png_destroy_read_struct(&png, &info, nullptr); }

  template <typename Work>
  [[gnu::noinline]] bool guarded(const Work& work) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    work();
    return true;
  }
  [[nodiscard]] tl::unexpected<Refusal> refusal() const {
    return refuse(reader.fault, "{}", reader.text);
  }

  Reader reader;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

class PngCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "PNG"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    return starts_with(bytes, "\x89PNG\r\n\x1a\n");
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  std::span<const uint8_t> bytes_;
  std::vector<uint8_t> indices_;
  std::vector<png_bytep> rows_;
};

/// The first eXIf chunk; empty if there is none. libpng would find only those before the pixels.
std::span<const uint8_t> exif_of(std::span<const uint8_t> bytes) noexcept {
  constexpr size_t kAround = 12;  // length, type, checksum
  size_t at = 8;                  // behind the signature
  while (bytes.size() - at >= kAround) {
    const size_t length = png_get_uint_32(&bytes[at]);
    if (bytes.size() - at - kAround < length) break;
    if (starts_with(bytes.subspan(at + 4), "eXIf")) return bytes.subspan(at + 8, length);
    at += kAround + length;
  }
  return {};
}

Outcome<Header> PngCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  bytes_ = bytes;
  Handle handle(bytes);
  png_set_user_limits(handle.png, 0x7fffffff, 0x7fffffff);  // ours are checked below
  if (!handle.guarded([&] { png_read_info(handle.png, handle.info); })) return handle.refusal();
  const auto size = checked_size(png_get_image_width(handle.png, handle.info),
                                 png_get_image_height(handle.png, handle.info), options.max_pixels);
  if (!size) return tl::unexpected(size.error());
  if (png_get_color_type(handle.png, handle.info) == PNG_COLOR_TYPE_GRAY &&
      png_get_bit_depth(handle.png, handle.info) == 16) {
    return refuse(
        Fault::kUnsupported,
        "grey of 16 bits, which PyTorch's reader clips to white above 255; save it with 8");
  }
  return Header{*size, options.apply_exif ? exif_orientation(exif_of(bytes)) : 1, false};
}

/// As Pillow's palette: entries the file leaves out are grey.
Palette palette_of(png_structp png, png_infop info) {
  Palette palette = grey_ramp();
  png_colorp colours = nullptr;
  int count = 0;
  if (png_get_PLTE(png, info, &colours, &count) != 0) {
    for (int i = 0; i < count && i < 256; ++i) {
      palette[static_cast<size_t>(i)] = {colours[i].red, colours[i].green, colours[i].blue};
    }
  }
  return palette;
}

Outcome<void> PngCodec::decode(const Box& /*needed*/, Image& out) {
  Handle handle(bytes_);
  png_structp png = handle.png;
  png_infop info = handle.info;
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  if (!handle.guarded([&] { png_read_info(png, info); })) return handle.refusal();
  const auto width = static_cast<size_t>(png_get_image_width(png, info));
  const auto height = static_cast<size_t>(png_get_image_height(png, info));
  const bool indexed = png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
  out.shape({0, 0, static_cast<int>(height), static_cast<int>(width)}, 3);
  give_back(indices_, indexed ? width * height : 0);
  if (indexed) indices_.resize(width * height);
  rows_.resize(height);
  for (size_t y = 0; y < height; ++y) {
    rows_[y] = indexed ? indices_.data() + y * width : out.row(static_cast<int>(y));
  }
  const bool read = handle.guarded([&] {
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_packing(png);
    if (!indexed) {
      png_set_expand_gray_1_2_4_to_8(png);
      png_set_gray_to_rgb(png);
    }
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != width * (indexed ? 1 : 3)) {
      png_error(png, "an unexpected number of bytes in a row");
    }
    png_read_image(png, rows_.data());
  });
  if (!read) return handle.refusal();
  if (indexed) {
    palette_to_rgb(indices_.data(), palette_of(png, info), width * height, out.pixels.data());
  }
  return {};
}

}  // namespace

std::unique_ptr<Codec> make_png_codec() { return std::make_unique<PngCodec>(); }

}  // namespace npu::image
