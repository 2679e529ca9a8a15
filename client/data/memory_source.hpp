// Samples that lie in memory in the network's own size: one table look-up a value from there to
// the batch.
#pragma once

#include "client/data/augment.hpp"
#include "client/data/source.hpp"

namespace npu::data {

class MemorySource final : public SampleSource {
 public:
  /// `label_offset` is added to each label.
  MemorySource(Dataset set, Augmenter augmenter, int label_offset = 0);

  [[nodiscard]] size_t size() const noexcept override { return set_.size(); }
  [[nodiscard]] const ImageShape& shape() const noexcept override { return set_.shape(); }
  [[nodiscard]] std::unique_ptr<SampleReader> reader() const override;
  [[nodiscard]] const Dataset& dataset() const noexcept { return set_; }

 private:
  class Reader;

  Dataset set_;
  Augmenter augmenter_;
  int label_offset_;
};

}  // namespace npu::data
