// Labelled images in memory.
// One process holds one copy; ranks do not share it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/data/class_table.hpp"
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

/// Per channel, applied to bytes x: (x / scale - mean) / stddev.
struct Normalization {
  std::array<float, kMaxChannels> mean{0.5F, 0.5F, 0.5F, 0.5F};
  std::array<float, kMaxChannels> stddev{0.5F, 0.5F, 0.5F, 0.5F};
  float scale = 255.0F;
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
  ClassTable classes;       // empty where the format has no names
  std::string description;  // "Fashion-MNIST (digest ok), 60000 train + 10000 val"
};

}  // namespace npu::data
