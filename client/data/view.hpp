// Which part of a picture a sample shows, at which size, and whether it is shifted or mirrored:
// what the job's recipe makes of (picture size, seed, epoch, sample), without pixels.
#pragma once

#include <cstdint>

#include "client/data/augment.hpp"
#include "client/image/resize.hpp"
#include "client/image/types.hpp"
#include "config/job.hpp"

namespace npu::data {

struct ViewOptions {
  config::Augment augment = config::Augment::kNone;  // kNone for validation
  bool tf = false;                                   // TensorFlow's geometry
  int size = 224;                                    // of the square that comes out
  int resize = 224;  // shorter side before the centre crop; unused by kImagenet
  uint64_t seed = 0;
};

struct View {
  image::ResizePlan plan;  // window: size x size
  CropFlip shift;          // applied to the window
};

/// Source: torchvision's RandomResizedCrop, RandomHorizontalFlip, Resize and CenterCrop, or their
/// TensorFlow counterparts; the draws are ours, keyed by (seed, epoch, sample).
[[nodiscard]] View choose_view(const ViewOptions& options, image::Size picture, int epoch,
                               uint64_t sample);

/// The random bits of one sample in one epoch, as many as are asked for. Not for secrets.
class SampleDraws {
 public:
  SampleDraws(uint64_t seed, int epoch, uint64_t sample) noexcept;
  uint32_t operator()() noexcept;

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace npu::data
