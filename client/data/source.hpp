// One split of a data set as the loader sees it: how many samples, of which shape, and a way for
// each thread to produce the network's input of one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "client/data/dataset.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

/// What became of a sample that was asked for.
enum class Outcome : uint8_t {
  kSample,   ///< it was written
  kStandIn,  ///< it cannot be read, something else was written
  kLeftOut,  ///< it cannot be read, nothing was written, it must not be counted
};

/// One thread's workspace on a source: buffers, decoders. Thread: one at a time.
class SampleReader {
 public:
  SampleReader() = default;
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;
  virtual ~SampleReader() = default;

  /// Writes the input of `sample` (below size()) in `epoch`, shape().elements() floats, channels
  /// innermost, and its label. A function of (source, sample, epoch) only. Errors: as the source
  /// says, naming the file.
  [[nodiscard]] virtual Result<Outcome> read(size_t sample, int epoch, float* out,
                                             int32_t* label) = 0;
};

/// Thread: any; it never changes, or only behind a lock. Ownership: outlives its readers.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  [[nodiscard]] virtual size_t size() const noexcept = 0;
  /// Of the network's input.
  [[nodiscard]] virtual const ImageShape& shape() const noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<SampleReader> reader() const = 0;
};

}  // namespace npu::data
