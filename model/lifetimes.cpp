#include "model/lifetimes.hpp"

#include <algorithm>
#include <numeric>

#include "shm/base/error.hpp"

namespace npu::model {

size_t Lifetimes::add(uint64_t bytes, int first, int last) {
  NPU_CHECK(first <= last);
  const uint64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  tensors_.push_back({.bytes = padded, .first = first, .last = last});
  return tensors_.size() - 1;
}

/// `placed` is in ascending order of offsets.
uint64_t Lifetimes::lowest_gap(const Tensor& tensor, const std::vector<size_t>& placed) const {
  uint64_t at = 0;
  for (const size_t id : placed) {
    const Tensor& other = tensors_[id];
    if (other.last < tensor.first || tensor.last < other.first) continue;
    if (at + tensor.bytes <= other.offset) break;
    at = std::max(at, other.offset + other.bytes);
  }
  return at;
}

void Lifetimes::place() {
  std::vector<size_t> by_size(tensors_.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [this](size_t a, size_t b) { return tensors_[a].bytes > tensors_[b].bytes; });
  std::vector<size_t> placed;
  for (const size_t id : by_size) {
    Tensor& tensor = tensors_[id];
    tensor.offset = lowest_gap(tensor, placed);
    total_bytes_ = std::max(total_bytes_, tensor.offset + tensor.bytes);
    const auto behind = std::find_if(placed.begin(), placed.end(), [&](size_t other) {
      return tensors_[other].offset > tensor.offset;
    });
    placed.insert(behind, id);
  }
}

}  // namespace npu::model
