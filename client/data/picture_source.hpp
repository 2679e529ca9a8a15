// Samples made from pictures: the part that the recipe shows, scaled, shifted, mirrored and
// normalised into the batch; and what happens when a picture cannot be read.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "client/data/pictures.hpp"
#include "client/data/source.hpp"
#include "client/data/view.hpp"

namespace npu::data {

/// Told of the first bad image of each kind, from the thread that met it.
using WarningSink = std::function<void(const std::string&)>;

struct PictureOptions {
  ViewOptions view;
  Normalization normalization;
  config::BadImage bad_image = config::BadImage::kError;
  bool training = false;  // kSkip: a stand-in in training, left out in validation
  int label_offset = 0;
  WarningSink warn = {};
};

/// A picture that cannot be read, by `bad_image`: kError fails the sample (data_loss, exit 65);
/// kSkip has the next readable picture of the set stand in, with its own label and draw, or leaves
/// the sample out in validation; kReplace gives zeros, the mean colour, with the sample's label.
/// All are functions of (set, sample, epoch).
class PictureSource final : public SampleSource {
 public:
  PictureSource(std::unique_ptr<Pictures> pictures, PictureOptions options);

  [[nodiscard]] size_t size() const noexcept override { return pictures_->size(); }
  [[nodiscard]] const ImageShape& shape() const noexcept override { return shape_; }
  [[nodiscard]] std::unique_ptr<SampleReader> reader() const override;

 private:
  class Reader;

  void warn_once(image::Fault fault, const Error& error) const;

  std::unique_ptr<Pictures> pictures_;
  PictureOptions options_;
  ImageShape shape_;
  Augmenter augmenter_;  // shifts, mirrors, normalises
  mutable std::array<std::atomic<bool>, image::kFaults> warned_{};
};

}  // namespace npu::data
