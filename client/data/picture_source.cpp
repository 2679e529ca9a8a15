#include "client/data/picture_source.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::data {
namespace {

constexpr size_t kMostBadInARow = 1000;

const char* consequence(config::BadImage policy, bool training) {
  if (policy == config::BadImage::kReplace) return "the mean colour takes its place";
  return training ? "the next image takes its place" : "it is not counted";
}

}  // namespace

class PictureSource::Reader final : public SampleReader {
 public:
  explicit Reader(const PictureSource& source)
      : source_(source),
        pictures_(source.pictures_->reader()),
        window_(source.shape_.elements()),
        floats_(source.options_.view.tf ? source.shape_.elements() : 0) {}

  Result<Outcome> read(size_t sample, int epoch, float* out, int32_t* label) override {
    *label = label_of(sample);
    auto done = write(sample, epoch, out);
    if (done) return Outcome::kSample;
    const PictureOptions& o = source_.options_;
    if (o.bad_image == config::BadImage::kError) {
      return fail_exit(Code::kDataLoss, Exit::kBadData,
                       "{}; remove or repair the file, or set data.bad_image to skip or replace",
                       done.error().message);
    }
    source_.warn_once(pictures_->fault(), done.error());
    if (o.bad_image == config::BadImage::kReplace) {
      std::fill_n(out, source_.shape_.elements(), 0.0F);
      return Outcome::kStandIn;
    }
    if (!o.training) return Outcome::kLeftOut;
    return stand_in(sample, epoch, out, label);
  }

 private:
  [[nodiscard]] int32_t label_of(size_t sample) const {
    return source_.pictures_->label(sample) + source_.options_.label_offset;
  }

  Result<Outcome> stand_in(size_t sample, int epoch, float* out, int32_t* label) {
    const size_t n = source_.size();
    for (size_t k = 1; k < std::min(n, kMostBadInARow); ++k) {
      const size_t other = (sample + k) % n;
      if (!write(other, epoch, out)) continue;
      *label = label_of(other);
      return Outcome::kStandIn;
    }
    return fail_exit(Code::kDataLoss, Exit::kBadData,
                     "find a stand-in for image {}: the {} that follow cannot be read either",
                     sample, std::min(n, kMostBadInARow) - 1);
  }

  Result<void> write(size_t sample, int epoch, float* out) {
    NPU_TRY(const image::Size size, pictures_->open(sample));
    const ViewOptions& o = source_.options_.view;
    const View view = choose_view(o, size, epoch, sample);
    const image::Box needed = o.tf ? image::needed_tf(view.plan) : image::needed(view.plan);
    NPU_TRY(const image::Image* picture, pictures_->pixels(needed));
    if (o.tf) {
      image::resize_tf(*picture, view.plan, floats_);
      write_floats(view.shift.flip, out);
      return {};
    }
    resizer_.resize(*picture, view.plan, window_);
    source_.augmenter_.write(window_, view.shift, out);
    return {};
  }

  /// As Augmenter::write, for pixels that are not whole numbers; profile tf never shifts.
  void write_floats(bool flip, float* out) const {
    const Normalization& n = source_.options_.normalization;
    const auto width = static_cast<size_t>(source_.shape_.width);
    const auto channels = static_cast<size_t>(source_.shape_.channels);
    for (size_t y = 0; y < static_cast<size_t>(source_.shape_.height); ++y) {
      for (size_t x = 0; x < width; ++x) {
        const size_t from = (y * width + (flip ? width - 1 - x : x)) * channels;
        for (size_t c = 0; c < channels; ++c) {
          out[(y * width + x) * channels + c] =
              (floats_[from + c] / n.scale - n.mean[c]) / n.stddev[c];
        }
      }
    }
  }

  const PictureSource& source_;
  std::unique_ptr<PictureReader> pictures_;
  image::Resizer resizer_;
  std::vector<uint8_t> window_;
  std::vector<float> floats_;
};

PictureSource::PictureSource(std::unique_ptr<Pictures> pictures, PictureOptions options)
    : pictures_(std::move(pictures)),
      options_(std::move(options)),
      shape_{options_.view.size, options_.view.size, pictures_->channels()},
      augmenter_(shape_, options_.normalization, config::Augment::kNone, options_.view.seed) {}

std::unique_ptr<SampleReader> PictureSource::reader() const {
  return std::make_unique<Reader>(*this);
}

void PictureSource::warn_once(image::Fault fault, const Error& error) const {
  const auto kind = std::min(static_cast<size_t>(fault), image::kFaults - 1);
  if (warned_[kind].exchange(true, std::memory_order_relaxed) || !options_.warn) return;
  options_.warn(fmt::format("{}; {}; more of this kind ({}) are counted but not shown",
                            error.message, consequence(options_.bad_image, options_.training),
                            image::fault_name(fault)));
}

}  // namespace npu::data
