// The two pipelines of main.py on photos, bit by bit beside torchvision: RandomResizedCrop and
// flip from the same draws, Resize and CenterCrop.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "client/image/crop.hpp"
#include "client/image/decoder.hpp"
#include "client/image/resize.hpp"
#include "tests/parity/image_reference.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::parity {
namespace {

using image::Box;
using image::Decoder;
using image::Image;
using image::ResizePlan;
using image::Size;

constexpr Size kCrop{224, 224};

struct TorchDraws {
  explicit TorchDraws(uint32_t seed) : engine(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine()); }
  std::mt19937 engine;
};

struct Reference {
  std::string path;
  Size size;
  uint32_t whole = 0, train = 0, val = 0;
};

class ImagePipeline : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("torchvision")) GTEST_SKIP() << "needs python3-torchvision";
    std::string source = NPU_SOURCE_DIR "/../shared/data/imagenet-samples.tar";
    if (!std::filesystem::exists(source)) {
      ASSERT_TRUE(run_script("tests/support/make_images.py", dir_.path() + " 2> /dev/null"));
      source = dir_.path() + "/files";
    }
    ASSERT_TRUE(run_script("tests/parity/image_pipeline.py", source + ' ' + dir_.path()));
    for (const std::string& line : lines_of(dir_.path() + "/pipeline.txt")) {
      std::istringstream fields(line);
      Reference r;
      fields >> r.path >> r.size.width >> r.size.height >> r.whole >> r.train >> r.val;
      references_.push_back(r);
    }
    ASSERT_GE(references_.size(), 20u);
    std::printf("%zu photos of %s\n", references_.size(), source.c_str());
  }

  Size open(const Reference& r) {
    EXPECT_TRUE(image::read_file(r.path, bytes_));
    const auto size = decoder_.open(bytes_, r.path);
    EXPECT_TRUE(size) << size.error().message;
    return size ? *size : Size{};
  }

  uint32_t crop_crc(const ResizePlan& plan, bool flipped) {
    EXPECT_TRUE(decoder_.decode(needed(plan), image_));
    std::vector<uint8_t> out(static_cast<size_t>(kCrop.width * kCrop.height * 3));
    resizer_.resize(image_, plan, out);
    if (flipped) {
      for (int y = 0; y < kCrop.height; ++y) {
        for (int x = 0; x < kCrop.width / 2; ++x) {
          for (int c = 0; c < 3; ++c) {
            std::swap(out[static_cast<size_t>((y * kCrop.width + x) * 3 + c)],
                      out[static_cast<size_t>((y * kCrop.width + kCrop.width - 1 - x) * 3 + c)]);
          }
        }
      }
    }
    return crc(out.data(), out.size());
  }

  test::TempDir dir_;
  std::vector<Reference> references_;
  std::vector<uint8_t> bytes_;
  Decoder decoder_;
  image::Resizer resizer_;
  Image image_;
};

TEST_F(ImagePipeline, GivesTheBitsOfTorchvision) {
  for (size_t i = 0; i < references_.size(); ++i) {
    const Reference& r = references_[i];
    SCOPED_TRACE(r.path);
    const Size size = open(r);
    ASSERT_EQ(size, r.size);
    ASSERT_TRUE(decoder_.decode(image::whole(size), image_));
    EXPECT_EQ(crc(image_), r.whole);

    TorchDraws draws(static_cast<uint32_t>(i));
    const Box crop = image::random_resized_crop(size, draws);
    const bool flipped = image::flip(draws);
    EXPECT_EQ(crop_crc(image::resize_crop(crop, kCrop), flipped), r.train);

    const Size resized = image::resize_shorter(size, 256);
    EXPECT_EQ(crop_crc({image::whole(size), resized, image::center_crop(resized, kCrop)}, false),
              r.val);
  }
}

TEST_F(ImagePipeline, AnyPartHasTheBitsOfTheWhole) {
  std::mt19937 random(1);
  Image part;
  for (const Reference& r : references_) {
    SCOPED_TRACE(r.path);
    const Size size = open(r);
    ASSERT_TRUE(decoder_.decode(image::whole(size), image_));
    for (int i = 0; i < 5; ++i) {
      Box box{static_cast<int>(random() % static_cast<unsigned>(size.height)),
              static_cast<int>(random() % static_cast<unsigned>(size.width)), 1, 1};
      box.height += static_cast<int>(random() % static_cast<unsigned>(size.height - box.top));
      box.width += static_cast<int>(random() % static_cast<unsigned>(size.width - box.left));
      ASSERT_TRUE(decoder_.decode(box, part));
      ASSERT_TRUE(part.region.covers(box));
      for (int row = box.top; row < box.bottom(); ++row) {
        ASSERT_TRUE(std::equal(part.at(row, box.left), part.at(row, box.left) + 3 * box.width,
                               image_.at(row, box.left)))
            << "row " << row << " of " << box.top << ' ' << box.left << ' ' << box.height << ' '
            << box.width;
      }
    }
  }
}

}  // namespace
}  // namespace npu::parity
