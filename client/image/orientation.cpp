// Orientation n puts stored row 0 and column 0 at: 1 top left, 2 top right, 3 bottom right, 4
// bottom left, 5 left top, 6 right top, 7 right bottom, 8 left bottom. Hence three bits: are rows
// and columns swapped, and is each of the stored axes reversed.
#include "client/image/orientation.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace npu::image {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;

struct Turn {
  bool swapped;           // stored rows become columns
  bool columns_reversed;  // stored column 0 ends up last
  bool rows_reversed;
};

constexpr Turn turn_of(int orientation) noexcept {
  switch (orientation) {
    case 2:
      return {false, true, false};
    case 3:
      return {false, true, true};
    case 4:
      return {false, false, true};
    case 5:
      return {true, false, false};
    case 6:
      return {true, false, true};
    case 7:
      return {true, true, true};
    case 8:
      return {true, true, false};
    default:
      return {false, false, false};
  }
}

/// Numbers of a TIFF file in its byte order; reads beyond the end give 0.
class Fields {
 public:
  explicit Fields(std::span<const uint8_t> bytes) : bytes_(bytes) {
    big_ = bytes.size() >= 2 && bytes[0] == 'M' && bytes[1] == 'M';
    little_ = bytes.size() >= 2 && bytes[0] == 'I' && bytes[1] == 'I';
  }
  [[nodiscard]] bool valid() const noexcept { return (big_ || little_) && number(2, 2) == 42; }
  [[nodiscard]] uint32_t number(size_t at, size_t width) const noexcept {
    if (at > bytes_.size() || bytes_.size() - at < width) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      value = value << 8 | bytes_[at + (big_ ? i : width - 1 - i)];
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_ = false;
  bool little_ = false;
};

/// Bytes of one value of a TIFF type; 0 if there is no such type.
constexpr size_t unit_bytes(uint32_t type) noexcept {
  constexpr uint8_t kUnits[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
  return type < std::size(kUnits) ? kUnits[type] : 0;
}

/// Types that count for an orientation. A BYTE is text to Pillow, so the picture stays as it is.
constexpr bool is_number(uint32_t type) noexcept {
  return type == 3 || type == 4 || type == 6 || type == 8 || type == 9 || type == 13;
}

constexpr Box swap_axes(const Box& b) noexcept { return {b.left, b.top, b.width, b.height}; }

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) noexcept {
  const Fields fields(tiff);
  if (!fields.valid()) return 1;
  const size_t directory = fields.number(4, 4);
  const size_t entries = fields.number(directory, 2);
  uint32_t value = 1;  // of the last such tag
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    const uint32_t type = fields.number(entry + 2, 2);
    const size_t size = unit_bytes(type) * fields.number(entry + 4, 4);
    if (size == 0) continue;
    const size_t at = size > 4 ? fields.number(entry + 8, 4) : entry + 8;
    if (at > tiff.size() || tiff.size() - at < size) break;
    if (fields.number(entry, 2) != kOrientationTag) continue;
    value = is_number(type) ? fields.number(at, unit_bytes(type)) : 1;
  }
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

Size turned_size(Size stored, int orientation) noexcept {
  return turn_of(orientation).swapped ? Size{stored.height, stored.width} : stored;
}

Box stored_box(const Box& upright, Size stored, int orientation) noexcept {
  const Turn t = turn_of(orientation);
  Box box = t.swapped ? swap_axes(upright) : upright;
  if (t.columns_reversed) box.left = stored.width - box.right();
  if (t.rows_reversed) box.top = stored.height - box.bottom();
  return box;
}

Box upright_box(const Box& stored_region, Size stored, int orientation) noexcept {
  const Turn t = turn_of(orientation);
  Box box = stored_region;
  if (t.columns_reversed) box.left = stored.width - box.right();
  if (t.rows_reversed) box.top = stored.height - box.bottom();
  return t.swapped ? swap_axes(box) : box;
}

void turn(const Image& in, Size stored, int orientation, Image& out) {
  const Turn t = turn_of(orientation);
  out.shape(upright_box(in.region, stored, orientation), in.channels);
  const auto channels = static_cast<size_t>(in.channels);
  const int rows = in.region.height;
  const int columns = in.region.width;
  for (int y = 0; y < rows; ++y) {
    const uint8_t* from = in.pixels.data() + static_cast<size_t>(y) * in.stride();
    const auto to_y = static_cast<size_t>(t.rows_reversed ? rows - 1 - y : y);
    for (int x = 0; x < columns; ++x, from += channels) {
      const auto to_x = static_cast<size_t>(t.columns_reversed ? columns - 1 - x : x);
      uint8_t* to = out.pixels.data() + (t.swapped ? to_x * out.stride() + to_y * channels
                                                   : to_y * out.stride() + to_x * channels);
      std::copy_n(from, channels, to);
    }
  }
}

}  // namespace npu::image
