#include "client/image/decoder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "client/image/codec.hpp"
#include "client/image/orientation.hpp"
#include "shm/base/fd.hpp"

namespace npu::image {
namespace {

constexpr std::array<std::string_view, kFaults> kFaultNames = {
    "none",    "empty",       "not an image", "truncated",
    "damaged", "unsupported", "too large",    "unreadable"};

Code code_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::kUnsupported:
      return Code::kUnimplemented;
    case Fault::kTooLarge:
      return Code::kResourceExhausted;
    default:
      return Code::kDataLoss;
  }
}

/// The first bytes as text, what is not printable as dots.
std::string beginning(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 12))) {
    text += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
  }
  return text;
}

}  // namespace

std::string_view fault_name(Fault fault) noexcept {
  const auto index = static_cast<size_t>(fault);
  return index < kFaultNames.size() ? kFaultNames[index] : "unknown";
}

Outcome<Size> checked_size(int64_t width, int64_t height, uint64_t max_pixels) {
  if (width <= 0 || height <= 0) {
    return refuse(Fault::kDamaged, "its header says {} x {} pixels", width, height);
  }
  if (width > kMaxSide || height > kMaxSide ||
      static_cast<uint64_t>(width) * static_cast<uint64_t>(height) > max_pixels) {
    return refuse(Fault::kTooLarge, "{} x {} pixels, at most {} in all and {} a side are accepted",
                  width, height, max_pixels, kMaxSide);
  }
  return Size{static_cast<int>(width), static_cast<int>(height)};
}

Decoder::Decoder(DecoderOptions options) : options_(options) {
  codecs_.push_back(make_jpeg_codec());
  codecs_.push_back(make_png_codec());
  codecs_.push_back(make_webp_codec());
  codecs_.push_back(make_tiff_codec());
  codecs_.push_back(make_bmp_codec());
  codecs_.push_back(make_pnm_codec());
}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

std::string_view Decoder::format() const noexcept {
  return codec_ == nullptr ? std::string_view{} : codec_->name();
}

tl::unexpected<Error> Decoder::refused(Fault fault, std::string_view reason) {
  fault_ = fault;
  const std::string_view format_name = codec_ == nullptr ? "" : codec_->name();
  return fail(code_of(fault), "read image '{}': {}{}{}: {}", file_name_, fault_name(fault),
              format_name.empty() ? "" : " ", format_name, reason);
}

Result<Size> Decoder::open(std::span<const uint8_t> bytes, std::string_view file_name) {
  file_name_ = file_name;
  fault_ = Fault::kNone;
  codec_ = nullptr;
  if (bytes.empty()) return refused(Fault::kEmpty, "the file has no bytes");
  if (bytes.size() > kMaxFileBytes) {
    return refused(Fault::kTooLarge,
                   fmt::format("{} bytes, at most {} are accepted", bytes.size(), kMaxFileBytes));
  }
  for (const auto& codec : codecs_) {
    if (codec->recognises(bytes)) codec_ = codec.get();
  }
  if (codec_ == nullptr) {
    return refused(Fault::kNotAnImage,
                   fmt::format("begins with '{}', expected JPEG, PNG, WebP, TIFF, BMP, PPM, PGM or "
                               "PBM",
                               beginning(bytes)));
  }
  const auto header = codec_->open(bytes, options_);
  if (!header) {
    const Refusal why = header.error();
    auto error = refused(why.fault, why.reason);
    codec_ = nullptr;
    return error;
  }
  stored_ = header->size;
  orientation_ = options_.apply_exif || header->always_turned ? header->orientation : 1;
  return turned_size(stored_, orientation_);
}

Result<void> Decoder::decode(const Box& needed, Image& out) {
  NPU_CHECK_MSG(codec_ != nullptr, "decode without a successful open");
  const Size size = turned_size(stored_, orientation_);
  if (needed.height <= 0 || needed.width <= 0 || !whole(size).covers(needed)) {
    return fail(Code::kInvalidArgument,
                "read image '{}': rows {}..{}, columns {}..{} are no part of {} x {} pixels",
                file_name_, needed.top, needed.bottom(), needed.left, needed.right(), size.width,
                size.height);
  }
  const bool turned = orientation_ != 1;
  const auto outcome =
      codec_->decode(stored_box(needed, stored_, orientation_), turned ? unturned_ : out);
  if (!outcome) return refused(outcome.error().fault, outcome.error().reason);
  if (turned) turn(unturned_, stored_, orientation_, out);
  return {};
}

Result<void> read_file(const std::string& path, std::vector<uint8_t>& out) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("open image '" + path + "'");
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat image '" + path + "'");
  if (!S_ISREG(st.st_mode)) {
    return fail_exit(Code::kInvalidArgument, Exit::kNoInput, "read image '{}': {}", path,
                     S_ISDIR(st.st_mode) ? "a folder, expected a file" : "not a regular file");
  }
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size > kMaxFileBytes) {
    return fail(Code::kResourceExhausted, "read image '{}': {} bytes, at most {} are accepted",
                path, size, kMaxFileBytes);
  }
  give_back(out, size);
  out.resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), out.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read image '" + path + "'");
    if (got == 0) break;  // shrank since; the decoder says what is missing
    done += static_cast<size_t>(got);
  }
  out.resize(done);
  return {};
}

}  // namespace npu::image
