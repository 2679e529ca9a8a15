// Memory of tensors whose lifetimes are known beforehand: those that never live at the same time
// share bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npu::model {

/// Usage: add every tensor, place once, then ask for offsets. The result depends on the calls only.
/// Source: greedy by size, lowest gap that is free during the whole lifetime; within a few per cent
/// of the largest sum of live bytes on ResNets.
class Lifetimes {
 public:
  static constexpr uint64_t kAlignment = 64;

  /// A tensor that is written at time `first` and read for the last time at `last` (inclusive).
  size_t add(uint64_t bytes, int first, int last);

  /// Cost: quadratic in the number of tensors.
  void place();

  [[nodiscard]] uint64_t offset(size_t id) const { return tensors_[id].offset; }
  [[nodiscard]] uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  struct Tensor {
    uint64_t bytes;
    int first;
    int last;
    uint64_t offset = 0;
  };
  [[nodiscard]] uint64_t lowest_gap(const Tensor& tensor, const std::vector<size_t>& placed) const;

  std::vector<Tensor> tensors_;
  uint64_t total_bytes_ = 0;
};

}  // namespace npu::model
