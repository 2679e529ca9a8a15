// Chooses the reader for a job's data section.
#include "client/data/dataset.hpp"

#include "client/data/idx_set.hpp"
#include "client/data/synthetic.hpp"

namespace npu::data {

Dataset::Dataset(ImageShape shape, int num_classes, std::vector<uint8_t> pixels,
                 std::vector<int32_t> labels)
    : shape_(shape),
      num_classes_(num_classes),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)) {
  NPU_CHECK(shape.channels >= 1 && shape.channels <= kMaxChannels);
  NPU_CHECK(pixels_.size() == labels_.size() * shape.elements());
}

namespace {

int synthetic_size(const config::DataConfig& config) noexcept {
  return config.image_size > 0 ? config.image_size : 32;
}

}  // namespace

Result<DatasetPair> open_dataset(const config::DataConfig& config, int num_classes, uint64_t seed) {
  switch (config.format) {
    case config::DataFormat::kIdx:
      return open_idx_set(config.path, num_classes);
    case config::DataFormat::kSynthetic:
      return make_synthetic(
          {.shape = {synthetic_size(config), synthetic_size(config), config.channels},
           .num_classes = num_classes,
           .train_samples = static_cast<size_t>(config.train_samples),
           .val_samples = static_cast<size_t>(config.val_samples),
           .seed = seed});
    case config::DataFormat::kImageFolder:
    case config::DataFormat::kCifar10:
    case config::DataFormat::kCifar100:
      break;
  }
  return fail(Code::kUnimplemented,
              "open data '{}': this version reads the formats idx and synthetic only", config.path);
}

}  // namespace npu::data
