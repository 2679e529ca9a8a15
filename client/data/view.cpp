#include "client/data/view.hpp"

#include "client/data/keyed_random.hpp"
#include "client/image/crop.hpp"

namespace npu::data {
namespace {

// Keeps these draws apart from those of draw_crop_flip, which has the same key.
constexpr uint64_t kStream = 0x5265'7369'7a65'6443u;

image::ResizePlan centre(const ViewOptions& o, image::Size picture) {
  const image::Size square{o.size, o.size};
  const image::Size scaled =
      o.tf ? image::tf_resize_shorter(picture, o.resize) : image::resize_shorter(picture, o.resize);
  return {image::whole(picture), scaled,
          o.tf ? image::tf_central_crop(scaled, square) : image::center_crop(scaled, square)};
}

}  // namespace

SampleDraws::SampleDraws(uint64_t seed, int epoch, uint64_t sample) noexcept
    : key_(keyed_random(seed ^ kStream, static_cast<uint64_t>(epoch), sample)) {}

// Counter mode: the n-th number is a mix of key and n, so no state can get out of step.
uint32_t SampleDraws::operator()() noexcept {
  return static_cast<uint32_t>(mix64(key_ ^ mix64(count_++)) >> 32);
}

View choose_view(const ViewOptions& o, image::Size picture, int epoch, uint64_t sample) {
  View view;
  switch (o.augment) {
    case config::Augment::kNone:
      view.plan = centre(o, picture);
      break;
    case config::Augment::kCifar:
      view.plan = centre(o, picture);
      view.shift = draw_crop_flip(o.seed, epoch, sample);
      break;
    case config::Augment::kImagenet: {
      SampleDraws draws(o.seed, epoch, sample);
      const image::Box crop = o.tf ? image::tf_distorted_crop(picture, draws)
                                   : image::random_resized_crop(picture, draws);
      view.plan = image::resize_crop(crop, {o.size, o.size});
      view.shift.flip = image::flip(draws);
      break;
    }
  }
  return view;
}

}  // namespace npu::data
