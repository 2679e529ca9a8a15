// Labelled images in memory, and how they are opened from a job's `data` section.
// One process holds one copy; ranks do not share it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

inline constexpr int kMaxChannels = 4;

struct ImageShape {
  int height = 0;
  int width = 0;
  int channels = 0;

  [[nodiscard]] size_t elements() const noexcept {
    return static_cast<size_t>(height) * static_cast<size_t>(width) * static_cast<size_t>(channels);
  }
  bool operator==(const ImageShape&) const = default;
};

/// Per channel, applied to pixels scaled to 0..1: (x - mean) / stddev.
struct Normalization {
  std::array<float, kMaxChannels> mean{0.5F, 0.5F, 0.5F, 0.5F};
  std::array<float, kMaxChannels> stddev{0.5F, 0.5F, 0.5F, 0.5F};
};

/// Images of one shape with one label each. Invariants: labels are in 0..num_classes-1; pixels are
/// size() x height x width x channels bytes, channels innermost. Thread: any, it never changes.
class Dataset {
 public:
  Dataset() = default;
  /// Aborts when the sizes do not fit together; readers check their files before.
  Dataset(ImageShape shape, int num_classes, std::vector<uint8_t> pixels,
          std::vector<int32_t> labels);

  [[nodiscard]] size_t size() const noexcept { return labels_.size(); }
  [[nodiscard]] const ImageShape& shape() const noexcept { return shape_; }
  [[nodiscard]] int height() const noexcept { return shape_.height; }
  [[nodiscard]] int width() const noexcept { return shape_.width; }
  [[nodiscard]] int channels() const noexcept { return shape_.channels; }
  [[nodiscard]] int num_classes() const noexcept { return num_classes_; }
  [[nodiscard]] int32_t label(size_t i) const noexcept { return labels_[i]; }

  /// Height x width x channels bytes.
  [[nodiscard]] std::span<const uint8_t> pixels(size_t i) const noexcept {
    return {pixels_.data() + i * shape_.elements(), shape_.elements()};
  }

 private:
  ImageShape shape_;
  int num_classes_ = 0;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
};

struct DatasetPair {
  Dataset train;
  Dataset val;
  Normalization normalization;
  std::string description;  // "Fashion-MNIST (digest ok), 60000 train + 10000 val"
};

/// Opens what `config` names. `num_classes` bounds the labels, `seed` keys synthetic images.
/// Errors: not_found (exit 66) naming every path tried; data_loss or failed_precondition (exit 65)
/// naming the file and what is wrong in it; unimplemented for formats this version does not read.
/// Cost: reads everything; Fashion-MNIST takes about 0.6 s and 55 MB.
[[nodiscard]] Result<DatasetPair> open_dataset(const config::DataConfig& config, int num_classes,
                                               uint64_t seed);

}  // namespace npu::data
