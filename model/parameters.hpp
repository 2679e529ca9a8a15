// Where each parameter lies in the flat order and in which gradient bucket: a table made once, at
// plan time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/sgd.hpp"

namespace npu::model {

enum class Role : uint8_t { kConvWeight, kFcWeight, kFcBias, kBnWeight, kBnBias };

/// True when weight decay of this scope touches parameters of this role.
[[nodiscard]] bool decays(DecayScope scope, Role role) noexcept;

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  Role role = Role::kConvWeight;
  uint64_t count = 0;     // elements of the plain tensor
  uint64_t physical = 0;  // floats in the layout it is kept in, padding included
  std::string layout;     // how it is kept, for layout_hash
  uint64_t offset = 0;    // of its first float in the flat order, a multiple of 16
};

/// A run of the flat order that becomes ready and is reduced as one.
struct Bucket {
  uint64_t begin = 0;  // floats
  uint64_t end = 0;    // without the metrics slot
};

/// Parameters in state-dict order, offsets in the order in which backward completes their
/// gradients.
class ParameterTable {
 public:
  static constexpr uint64_t kMetricsFloats = 16;

  /// Appends in state-dict order and returns the index.
  size_t add(Parameter parameter);
  /// Lays out the flat order; `completion` holds every index once.
  void lay_out(std::span<const size_t> completion, uint64_t first_bucket_bytes,
               uint64_t bucket_bytes);

  [[nodiscard]] std::span<const Parameter> all() const noexcept { return parameters_; }
  [[nodiscard]] const Parameter& operator[](size_t i) const { return parameters_[i]; }
  [[nodiscard]] std::span<const Bucket> buckets() const noexcept { return buckets_; }
  /// Indices in flat order.
  [[nodiscard]] std::span<const size_t> order() const noexcept { return order_; }
  /// Flat position right behind a parameter, where the next one begins.
  [[nodiscard]] uint64_t end_of(size_t i) const;
  [[nodiscard]] uint64_t flat_floats() const noexcept { return flat_floats_; }
  [[nodiscard]] uint64_t element_count() const noexcept;
  [[nodiscard]] uint64_t hash() const noexcept;

 private:
  std::vector<Parameter> parameters_;
  std::vector<size_t> order_;
  std::vector<Bucket> buckets_;
  uint64_t flat_floats_ = 0;
};

}  // namespace npu::model
