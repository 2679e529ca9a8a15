// Files as people have them: each is converted to the bits of Pillow, or refused with a sentence
// that names it. The files come from tests/support/make_images.py; the table is what must become of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "client/image/decoder.hpp"
#include "tests/parity/image_reference.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::parity {
namespace {

using image::Box;
using image::Decoder;
using image::Fault;
using image::Image;
using image::Size;
using testing::HasSubstr;

/// All others are converted as Pillow does.
const std::map<std::string, Fault>& refused() {
  static const std::map<std::string, Fault> kRefused = {
      {"empty.jpg", Fault::kEmpty},
      {"text.jpg", Fault::kNotAnImage},
      {"html.png", Fault::kNotAnImage},
      {"gif-named.jpg", Fault::kNotAnImage},
      {"one-byte.jpg", Fault::kNotAnImage},
      {"zeros.jpg", Fault::kNotAnImage},

      {"jpeg-cut-at-3.jpg", Fault::kTruncated},
      {"jpeg-cut-in-tables.jpg", Fault::kTruncated},
      {"jpeg-cut-in-frame-header.jpg", Fault::kTruncated},
      {"jpeg-cut-behind-headers.jpg", Fault::kTruncated},
      {"jpeg-cut-at-half.jpg", Fault::kTruncated},
      {"jpeg-progressive-cut.jpg", Fault::kTruncated},
      {"jpeg-exif-thumbnail-cut.jpg", Fault::kTruncated},
      {"jpeg-table-in-data.jpg", Fault::kDamaged},
      {"jpeg-table-in-data-cut.jpg", Fault::kDamaged},
      {"jpeg-12-bits.jpg", Fault::kUnsupported},
      {"jpeg-no-width.jpg", Fault::kDamaged},
      {"jpeg-huge.jpg", Fault::kTooLarge},
      {"jpeg-no-tables.jpg", Fault::kDamaged},
      {"jpeg-lossless.jpg", Fault::kUnsupported},
      {"jpeg-2-components.jpg", Fault::kUnsupported},

      {"png-grey-16.png", Fault::kUnsupported},  // Pillow clips it to white
      {"png-cut-in-header.png", Fault::kTruncated},
      {"png-cut-at-half.png", Fault::kTruncated},
      {"png-few-rows.png", Fault::kDamaged},
      {"png-broken-checksum.png", Fault::kDamaged},  // Pillow does not look at it
      {"png-huge.png", Fault::kTooLarge},
      {"png-no-width.png", Fault::kDamaged},
      {"png-long-side.png", Fault::kTooLarge},  // Pillow counts pixels only

      {"bmp-odd-masks.bmp", Fault::kUnsupported},
      {"bmp-rle.bmp", Fault::kUnsupported},
      {"bmp-cut.bmp", Fault::kTruncated},
      {"bmp-cut-last-pixel.bmp", Fault::kTruncated},
      {"bmp-cut-in-header.bmp", Fault::kTruncated},
      {"bmp-huge.bmp", Fault::kTooLarge},
      {"bmp-negative-width.bmp", Fault::kDamaged},

      {"pnm-p5-maximum-65535.pgm", Fault::kUnsupported},  // Pillow clips it to white
      {"pnm-cut.ppm", Fault::kTruncated},
      {"pnm-cut-in-header.ppm", Fault::kTruncated},
      {"pnm-plain-cut.ppm", Fault::kTruncated},  // Pillow leaves the rest black
      {"pnm-plain-words.ppm", Fault::kDamaged},
      {"pnm-plain-beyond-maximum.ppm", Fault::kDamaged},
      {"pnm-huge.ppm", Fault::kTooLarge},

      {"tiff-lzma.tif", Fault::kUnsupported},
      {"tiff-webp.tif", Fault::kUnsupported},
      {"tiff-grey-16.tif", Fault::kUnsupported},
      {"tiff-float.tif", Fault::kUnsupported},
      {"tiff-premultiplied.tif", Fault::kUnsupported},
      {"tiff-lab.tif", Fault::kUnsupported},
      {"tiff-cut-at-half.tif", Fault::kTruncated},
      {"tiff-cut-in-directory.tif", Fault::kTruncated},
      {"tiff-lzw-damaged.tif", Fault::kDamaged},
      {"tiff-huge.tif", Fault::kTooLarge},

      {"webp-cut-at-half.webp", Fault::kTruncated},
      {"webp-cut-in-header.webp", Fault::kTruncated},
      {"webp-damaged.webp", Fault::kDamaged},
  };
  return kRefused;
}

/// What Pillow said of a file.
struct Reference {
  std::string name;
  bool converted = false;
  Size size;
  uint32_t crc = 0;
  uint32_t turned_crc = 0;
  std::string words;
};

Reference parse(const std::string& line) {
  Reference r;
  const size_t tab = line.rfind('\t');
  r.name = line.substr(0, tab);
  std::istringstream rest(line.substr(tab + 1));
  std::string verdict;
  rest >> verdict;
  r.converted = verdict == "ok";
  if (r.converted) {
    rest >> r.size.width >> r.size.height >> r.crc >> r.turned_crc;
  } else {
    std::getline(rest, r.words);
  }
  return r;
}

class ImageCorpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("PIL") || !has_module("numpy")) GTEST_SKIP() << "needs python3-pil";
    ASSERT_TRUE(run_script("tests/support/make_images.py", dir_.path() + " 2> /dev/null"));
    for (const std::string& line : lines_of(dir_.path() + "/expected.txt")) {
      references_.push_back(parse(line));
    }
    ASSERT_GT(references_.size(), 150u);
  }

  std::span<const uint8_t> bytes_of(const Reference& r) {
    EXPECT_TRUE(image::read_file(dir_.path() + "/files/" + r.name, bytes_));
    return bytes_;
  }

  /// Decodes all of it, or says why not.
  Result<Size> decode(Decoder& decoder, const Reference& r) {
    NPU_TRY(const Size size, decoder.open(bytes_of(r), r.name));
    NPU_TRY_VOID(decoder.decode(image::whole(size), image_));
    return size;
  }

  test::TempDir dir_;
  std::vector<Reference> references_;
  std::vector<uint8_t> bytes_;
  Image image_;
};

TEST_F(ImageCorpus, EachFileIsConvertedAsByPillowOrRefusedByName) {
  Decoder sut;
  size_t seen = 0;
  for (const Reference& r : references_) {
    SCOPED_TRACE(r.name + (r.converted ? "" : ", Pillow:" + r.words));
    const auto size = decode(sut, r);
    const auto expected = refused().find(r.name);
    if (expected == refused().end()) {
      EXPECT_TRUE(r.converted) << "Pillow refuses it; what is expected of us?";
      if (!size) ADD_FAILURE() << size.error().message;
      if (!size || !r.converted) continue;
      EXPECT_EQ(*size, r.size);
      EXPECT_EQ(image_.region, image::whole(r.size));
      EXPECT_EQ(crc(image_), r.crc);
      continue;
    }
    ++seen;
    ASSERT_FALSE(size) << "accepted";
    EXPECT_EQ(sut.fault(), expected->second) << size.error().message;
    EXPECT_THAT(size.error().message, HasSubstr("read image '" + r.name + "': "));
    EXPECT_THAT(size.error().message, HasSubstr(std::string(fault_name(expected->second))));
  }
  EXPECT_EQ(seen, refused().size()) << "the table names a file that the script does not make";
}

TEST_F(ImageCorpus, PicturesAreTurnedAsByExifTranspose) {
  Decoder sut({.apply_exif = true});
  for (const Reference& r : references_) {
    // Pillow turns a TIFF on loading, and in exif_transpose a second time.
    if (!r.converted || refused().contains(r.name) || r.name.starts_with("tiff-orientation")) {
      continue;
    }
    const auto size = decode(sut, r);
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(crc(image_), r.turned_crc) << r.name;
  }
}

TEST_F(ImageCorpus, APartHasTheBitsOfTheWhole) {
  for (const bool apply : {false, true}) {
    Decoder sut({.apply_exif = apply});
    Image part;
    for (const Reference& r : references_) {
      if (!r.converted || refused().contains(r.name)) continue;
      const auto opened = decode(sut, r);
      ASSERT_TRUE(opened) << opened.error().message;
      const Size size = *opened;
      const int y = size.height / 3;
      const int x = size.width / 3;
      for (const Box& box : {Box{0, 0, 1, 1}, Box{size.height - 1, size.width - 1, 1, 1},
                             Box{y, x, 1, 1}, Box{y, x, size.height / 3 + 1, size.width / 3 + 1},
                             Box{y, 0, 1, size.width}, Box{0, x, size.height, 1}}) {
        SCOPED_TRACE(
            fmt::format("{} {} {} {} {}", r.name, box.top, box.left, box.height, box.width));
        ASSERT_TRUE(sut.decode(box, part));
        ASSERT_TRUE(part.region.covers(box));
        for (int row = box.top; row < box.bottom(); ++row) {
          ASSERT_TRUE(std::equal(part.at(row, box.left), part.at(row, box.left) + 3 * box.width,
                                 image_.at(row, box.left)))
              << "row " << row;
        }
      }
    }
  }
}

// Whether a damaged file is refused must not depend on which part of it is asked for.
TEST_F(ImageCorpus, RefusalsDoNotDependOnTheBox) {
  Decoder sut;
  Image part;
  for (const Reference& r : references_) {
    const auto size = sut.open(bytes_of(r), r.name);
    if (!refused().contains(r.name) || !size) continue;
    for (const Box& box : {Box{0, 0, 1, 1}, Box{size->height - 1, size->width - 1, 1, 1}}) {
      EXPECT_FALSE(sut.decode(box, part)) << r.name;
    }
  }
}

}  // namespace
}  // namespace npu::parity
