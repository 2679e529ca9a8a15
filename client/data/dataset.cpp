#include "client/data/dataset.hpp"

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

}  // namespace npu::data
