// JPEG by libjpeg-turbo with its defaults, as Pillow uses it. Of a baseline picture only the iMCU
// columns and rows around the wanted box are transformed, up-sampled and converted.
//
// The library reports errors by a call that must not return: it is left by longjmp, so no frame
// between guarded() and the library may own anything.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs size_t and FILE before it.
#include <jpeglib.h>
// jerror.h follows jpeglib.h.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "client/image/codec.hpp"
#include "client/image/colour.hpp"
#include "client/image/orientation.hpp"

namespace npu::image {
namespace {

// Fancy up-sampling looks one chroma sample (two pixels) to each side.
constexpr int kMargin = 2;
// A progressive file may have any number of scans over all coefficients: minutes of work in a few
// bytes. The library's own fuzzers stop here.
constexpr int kMaxScans = 500;
constexpr int kRowsAtOnce = 16;

struct ErrorManager : jpeg_error_mgr {
  jmp_buf jump;
  Fault fault;
  std::array<char, JMSG_LENGTH_MAX> text;
};

ErrorManager& errors_of(j_common_ptr info) { return *static_cast<ErrorManager*>(info->err); }

[[noreturn]] void leave(j_common_ptr info, Fault fault, const char* text) {
  ErrorManager& errors = errors_of(info);
  errors.fault = fault;
  std::snprintf(errors.text.data(), errors.text.size(), "%s", text);
  longjmp(errors.jump, 1);
}

Fault fault_of(int message) noexcept {
  switch (message) {
    case JERR_BAD_PRECISION:    // 12 bits
    case JERR_SOF_UNSUPPORTED:  // lossless, hierarchical
    case JERR_ARITH_NOTIMPL:    // the library was built without
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_NOT_COMPILED:
      return Fault::kUnsupported;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
    case JERR_OUT_OF_MEMORY:
      return Fault::kTooLarge;
    default:
      return Fault::kDamaged;
  }
}

[[noreturn]] void on_error(j_common_ptr info) {
  ErrorManager& errors = errors_of(info);
  errors.fault = fault_of(errors.msg_code);
  errors.format_message(info, errors.text.data());
  longjmp(errors.jump, 1);
}

// Warnings are what Pillow accepts in silence.
void on_message(j_common_ptr) {}
void on_warning(j_common_ptr, int) {}

void on_progress(j_common_ptr info) {
  if (info->is_decompressor == 0) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    leave(info, Fault::kDamaged, "more than 500 scans");
  }
}

void start_source(j_decompress_ptr) {}
void end_source(j_decompress_ptr) {}
boolean on_end_of_bytes(j_decompress_ptr info) {
  leave(reinterpret_cast<j_common_ptr>(info), Fault::kTruncated, "the file ends within its data");
}
void skip_bytes(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_end_of_bytes(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

/// Runs `work` with the library's errors ending it; false then, and errors.fault and text are set.
template <typename Work>
[[gnu::noinline]] bool guarded(ErrorManager& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) return false;
  work();
  return true;
}

/// Whether the data of a scan run to an end-of-image marker, with none but restarts between.
bool runs_to_end_marker(std::span<const uint8_t> data) noexcept {
  const uint8_t* at = data.data();
  const uint8_t* const end = at + data.size();
  while (at < end) {
    at = static_cast<const uint8_t*>(std::memchr(at, 0xFF, static_cast<size_t>(end - at)));
    if (at == nullptr) return false;
    while (at < end && *at == 0xFF) ++at;  // fill bytes
    if (at == end || *at == JPEG_EOI) return at != end;
    const bool restart = *at >= JPEG_RST0 && *at <= JPEG_RST0 + 7;
    if (*at != 0 && !restart) return false;
    ++at;
  }
  return false;
}

/// Grey or three components of whole or half resolution: what kMargin was made for.
bool usual_sampling(const jpeg_decompress_struct& info) noexcept {
  return info.num_components <= 3 && info.max_h_samp_factor <= 2 && info.max_v_samp_factor <= 2;
}

constexpr int align_down(int x, int step) noexcept { return x - x % step; }

class JpegCodec final : public Codec {
 public:
  JpegCodec();
  ~JpegCodec() override { jpeg_destroy_decompress(&info_); }

  [[nodiscard]] std::string_view name() const noexcept override { return "JPEG"; }
  [[nodiscard]] bool recognises(std::span<const uint8_t> bytes) const noexcept override {
    return starts_with(bytes, "\xFF\xD8\xFF");
  }
  Outcome<Header> open(std::span<const uint8_t> bytes, const DecoderOptions& options) override;
  Outcome<void> decode(const Box& needed, Image& out) override;

 private:
  void create();
  bool read_header(bool exif);
  [[nodiscard]] int orientation() const noexcept;
  bool start(const Box& needed, Box& region);
  bool read_rows(const Box& region, Image& out);
  bool check_rest();
  [[nodiscard]] tl::unexpected<Refusal> refusal() const;

  jpeg_decompress_struct info_{};
  ErrorManager errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::span<const uint8_t> bytes_;
  bool header_is_fresh_ = false;
  bool plain_ = true;  // one scan up to the end marker; else only decoding tells what is there
  std::vector<uint8_t> ink_;  // a row of CMYK
};

JpegCodec::JpegCodec() {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  errors_.output_message = on_message;
  errors_.emit_message = on_warning;
  source_.init_source = start_source;
  source_.fill_input_buffer = on_end_of_bytes;
  source_.skip_input_data = skip_bytes;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = end_source;
  progress_.progress_monitor = on_progress;
  create();
}

void JpegCodec::create() {
  // Fails only when out of memory or linked with another version.
  const bool created = guarded(errors_, [this] { jpeg_create_decompress(&info_); });
  NPU_CHECK_MSG(created, errors_.text.data());
  info_.src = &source_;
  info_.progress = &progress_;
}

tl::unexpected<Refusal> JpegCodec::refusal() const {
  return refuse(errors_.fault, "{}", errors_.text.data());
}

/// With a new decompressor, as one keeps its tables: a file that lacks some would be read with
/// those of the last one, or with what stands behind its own pixels.
bool JpegCodec::read_header(bool exif) {
  jpeg_destroy_decompress(&info_);
  create();
  return guarded(errors_, [this, exif] {
    jpeg_save_markers(&info_, JPEG_APP0 + 1, exif ? 0xFFFF : 0);
    source_.next_input_byte = bytes_.data();
    source_.bytes_in_buffer = bytes_.size();
    jpeg_read_header(&info_, TRUE);
  });
}

int JpegCodec::orientation() const noexcept {
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (auto marker = info_.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const uint8_t> data(marker->data, marker->data_length);
    if (starts_with(data, kExif)) return exif_orientation(data.subspan(kExif.size()));
  }
  return 1;
}

Outcome<Header> JpegCodec::open(std::span<const uint8_t> bytes, const DecoderOptions& options) {
  bytes_ = bytes;
  header_is_fresh_ = false;
  if (!read_header(options.apply_exif)) return refusal();
  if (info_.num_components == 2 || info_.num_components > 4) {
    return refuse(Fault::kUnsupported, "{} components, expected 1, 3 or 4", info_.num_components);
  }
  const auto size = checked_size(info_.image_width, info_.image_height, options.max_pixels);
  if (!size) return tl::unexpected(size.error());
  plain_ = runs_to_end_marker(bytes.last(source_.bytes_in_buffer));
  header_is_fresh_ = true;
  return Header{*size, options.apply_exif ? orientation() : 1, false};
}

/// Starts the decompressor at the region around `needed` that can be decoded with equal bits.
bool JpegCodec::start(const Box& needed, Box& region) {
  return guarded(errors_, [&] {
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    const Size size{static_cast<int>(info_.output_width), static_cast<int>(info_.output_height)};
    // Of several scans all bytes have been read by now.
    const bool scans = jpeg_has_multiple_scans(&info_) != 0;
    region = {0, 0, plain_ || scans ? needed.bottom() : size.height, size.width};
    // Several scans are kept as coefficients, and incomplete ones are smoothed across blocks.
    if (!plain_ || scans || !usual_sampling(info_)) return;
    const int block_width = info_.max_h_samp_factor * DCTSIZE;
    const int block_height = info_.max_v_samp_factor * DCTSIZE;
    const int left = align_down(std::max(0, needed.left - kMargin), block_width);
    const int right = std::min(size.width, needed.right() + kMargin);
    if (left > 0 || right < size.width) {
      auto offset = static_cast<JDIMENSION>(left);
      auto width = static_cast<JDIMENSION>(right - left);
      jpeg_crop_scanline(&info_, &offset, &width);
      region.left = static_cast<int>(offset);
      region.width = static_cast<int>(width);
    }
    const int top = align_down(std::max(0, needed.top - kMargin), block_height);
    if (top > 0) {
      region.top = static_cast<int>(jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(top)));
      region.height = needed.bottom() - region.top;
    }
  });
}

bool JpegCodec::read_rows(const Box& region, Image& out) {
  const bool ink = info_.num_components == 4;
  if (ink) ink_.resize(static_cast<size_t>(region.width) * 4);
  return guarded(errors_, [&] {
    std::array<JSAMPROW, kRowsAtOnce> rows;
    int row = region.top;
    while (row < region.bottom()) {
      const int wanted = ink ? 1 : std::min(kRowsAtOnce, region.bottom() - row);
      for (int i = 0; i < wanted; ++i) {
        rows[static_cast<size_t>(i)] = ink ? ink_.data() : out.row(row + i);
      }
      const auto got = static_cast<int>(
          jpeg_read_scanlines(&info_, rows.data(), static_cast<JDIMENSION>(wanted)));
      if (ink) cmyk_to_rgb(ink_.data(), true, static_cast<size_t>(region.width), out.row(row));
      row += got;
    }
  });
}

/// Behind the last row: a marker that came too early may begin something that is none. Running out
/// of bytes there is no fault. Source: Pillow's JpegDecode.c, which ends likewise.
bool JpegCodec::check_rest() {
  if (info_.output_scanline < info_.output_height) return true;
  return guarded(errors_, [this] { jpeg_finish_decompress(&info_); }) ||
         errors_.fault == Fault::kTruncated;
}

Outcome<void> JpegCodec::decode(const Box& needed, Image& out) {
  if (!header_is_fresh_ && !read_header(false)) return refusal();
  header_is_fresh_ = false;
  Box region;
  if (!start(needed, region)) return refusal();
  out.shape(region, 3);
  if (!read_rows(region, out)) return refusal();
  if (!plain_ && !check_rest()) return refusal();
  return {};
}

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec() { return std::make_unique<JpegCodec>(); }

}  // namespace npu::image
