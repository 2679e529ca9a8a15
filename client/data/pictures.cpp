#include "client/data/pictures.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace npu::data {
namespace {

void copy_part(const PictureMemory::Picture& from, const image::Box& box, image::Image& to) {
  to.shape(box, from.channels);
  const size_t stride = static_cast<size_t>(from.size.width) * static_cast<size_t>(from.channels);
  const uint8_t* row = from.pixels + static_cast<size_t>(box.top) * stride +
                       static_cast<size_t>(box.left) * static_cast<size_t>(from.channels);
  for (int y = box.top; y < box.bottom(); ++y, row += stride) {
    std::memcpy(to.row(y), row, to.stride());
  }
}

class FilePictures final : public Pictures {
 public:
  FilePictures(ImageFolder folder, bool apply_exif, std::optional<PictureCache> cache)
      : folder_(std::move(folder)), options_{.apply_exif = apply_exif}, cache_(std::move(cache)) {}

  [[nodiscard]] size_t size() const noexcept override { return folder_.size(); }
  [[nodiscard]] int channels() const noexcept override { return 3; }
  [[nodiscard]] int32_t label(size_t i) const noexcept override { return folder_.label(i); }
  [[nodiscard]] std::unique_ptr<PictureReader> reader() const override {
    return std::make_unique<Reader>(*this);
  }

 private:
  class Reader final : public PictureReader {
   public:
    explicit Reader(const FilePictures& set) : set_(set), decoder_(set.options_) {}

    Result<image::Size> open(size_t i) override {
      index_ = i;
      kept_ = set_.cache_ ? set_.cache_->find(i) : std::nullopt;
      if (kept_) return kept_->size;
      set_.folder_.path(i, path_);
      fault_ = image::Fault::kUnreadable;
      NPU_TRY_VOID(image::read_file(path_, bytes_));
      auto size = decoder_.open(bytes_, path_);
      fault_ = decoder_.fault();
      if (size) size_ = *size;
      return size;
    }

    Result<const image::Image*> pixels(const image::Box& box) override {
      if (kept_) {
        copy_part(*kept_, box, image_);
        return &image_;
      }
      const bool keep = set_.cache_ && set_.cache_->has_room(size_);
      const auto done = decoder_.decode(keep ? image::whole(size_) : box, image_);
      fault_ = decoder_.fault();
      if (!done) return tl::make_unexpected(done.error());
      if (keep && image_.region == image::whole(size_)) set_.cache_->keep(index_, image_);
      return &image_;
    }

    [[nodiscard]] image::Fault fault() const noexcept override { return fault_; }

   private:
    const FilePictures& set_;
    image::Decoder decoder_;
    std::string path_;
    std::vector<uint8_t> bytes_;
    image::Image image_;
    image::Size size_;
    size_t index_ = 0;
    std::optional<PictureMemory::Picture> kept_;
    image::Fault fault_ = image::Fault::kNone;
  };

  ImageFolder folder_;
  image::DecoderOptions options_;
  std::optional<PictureCache> cache_;
};

class MemoryPictures final : public Pictures {
 public:
  explicit MemoryPictures(Dataset set) : set_(std::move(set)) {
    NPU_CHECK(set_.channels() == 1 || set_.channels() == 3);
  }

  [[nodiscard]] size_t size() const noexcept override { return set_.size(); }
  [[nodiscard]] int channels() const noexcept override { return set_.channels(); }
  [[nodiscard]] int32_t label(size_t i) const noexcept override { return set_.label(i); }
  [[nodiscard]] std::unique_ptr<PictureReader> reader() const override {
    return std::make_unique<Reader>(set_);
  }

 private:
  class Reader final : public PictureReader {
   public:
    explicit Reader(const Dataset& set) : set_(set) {
      image_.shape(image::whole({set.width(), set.height()}), set.channels());
    }

    Result<image::Size> open(size_t i) override {
      std::ranges::copy(set_.pixels(i), image_.pixels.begin());
      return image_.region.size();
    }
    Result<const image::Image*> pixels(const image::Box&) override { return &image_; }
    [[nodiscard]] image::Fault fault() const noexcept override { return image::Fault::kNone; }

   private:
    const Dataset& set_;
    image::Image image_;
  };

  Dataset set_;
};

}  // namespace

std::unique_ptr<Pictures> file_pictures(ImageFolder folder, bool apply_exif,
                                        std::optional<PictureCache> cache) {
  return std::make_unique<FilePictures>(std::move(folder), apply_exif, std::move(cache));
}

std::unique_ptr<Pictures> memory_pictures(Dataset set) {
  return std::make_unique<MemoryPictures>(std::move(set));
}

}  // namespace npu::data
