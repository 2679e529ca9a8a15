// Pictures before they are cropped and scaled, wherever they come from.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/data/dataset.hpp"
#include "client/data/image_folder.hpp"
#include "client/data/picture_cache.hpp"
#include "client/image/decoder.hpp"
#include "client/image/types.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

/// One thread's workspace. Thread: one at a time.
class PictureReader {
 public:
  PictureReader() = default;
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;
  virtual ~PictureReader() = default;

  /// The size of picture `i`. Errors: as the decoder says, naming the file.
  [[nodiscard]] virtual Result<image::Size> open(size_t i) = 0;
  /// Pixels of the opened picture that cover `box`, valid until the next call.
  [[nodiscard]] virtual Result<const image::Image*> pixels(const image::Box& box) = 0;
  /// Of the last call that failed.
  [[nodiscard]] virtual image::Fault fault() const noexcept = 0;
};

/// Thread: any. Ownership: outlives its readers.
class Pictures {
 public:
  Pictures() = default;
  Pictures(const Pictures&) = delete;
  Pictures& operator=(const Pictures&) = delete;
  virtual ~Pictures() = default;

  [[nodiscard]] virtual size_t size() const noexcept = 0;
  [[nodiscard]] virtual int channels() const noexcept = 0;  // 1 or 3
  [[nodiscard]] virtual int32_t label(size_t i) const noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<PictureReader> reader() const = 0;
};

/// Files of a folder; decoded ones are kept in `cache`, if there is one.
[[nodiscard]] std::unique_ptr<Pictures> file_pictures(ImageFolder folder, bool apply_exif,
                                                      std::optional<PictureCache> cache);

/// A set in memory, for recipes that scale it. Aborts unless it has 1 or 3 channels.
[[nodiscard]] std::unique_ptr<Pictures> memory_pictures(Dataset set);

}  // namespace npu::data
