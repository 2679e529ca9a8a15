// The eight ways a camera can be held: where the tag is, and how a picture is turned upright.
#pragma once

#include <cstdint>
#include <span>

#include "client/image/types.hpp"

namespace npu::image {

/// Orientation (1..8) of an EXIF block, which is a small TIFF file; 1 if it says none or is damaged
/// before it. Source: Pillow's ImageFileDirectory_v2, for tags of whole numbers.
[[nodiscard]] int exif_orientation(std::span<const uint8_t> tiff) noexcept;

/// Size of the upright picture for a stored one, and the other way round.
[[nodiscard]] Size turned_size(Size stored, int orientation) noexcept;
/// The stored pixels that `upright` comes from.
[[nodiscard]] Box stored_box(const Box& upright, Size stored, int orientation) noexcept;
/// The upright box that stored pixels go to.
[[nodiscard]] Box upright_box(const Box& stored_region, Size stored, int orientation) noexcept;
/// Copies all of `in` (a region of the stored picture) turned upright. Source: matches
/// PIL.ImageOps.exif_transpose.
void turn(const Image& in, Size stored, int orientation, Image& out);

}  // namespace npu::image
