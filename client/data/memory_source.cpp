#include "client/data/memory_source.hpp"

namespace npu::data {

class MemorySource::Reader final : public SampleReader {
 public:
  explicit Reader(const MemorySource& source) : source_(source) {}

  Result<Outcome> read(size_t sample, int epoch, float* out, int32_t* label) override {
    source_.augmenter_.apply(source_.set_.pixels(sample), epoch, sample, out);
    *label = source_.set_.label(sample) + source_.label_offset_;
    return Outcome::kSample;
  }

 private:
  const MemorySource& source_;
};

MemorySource::MemorySource(Dataset set, Augmenter augmenter, int label_offset)
    : set_(std::move(set)), augmenter_(std::move(augmenter)), label_offset_(label_offset) {
  NPU_CHECK(set_.shape() == augmenter_.shape());
}

std::unique_ptr<SampleReader> MemorySource::reader() const {
  return std::make_unique<Reader>(*this);
}

}  // namespace npu::data
