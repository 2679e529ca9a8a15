// Flat offsets, buckets and the layout hash.
#include "model/parameters.hpp"

#include <fmt/format.h>

namespace npu::model {
namespace {

constexpr uint64_t kAlignFloats = 16;  // one cache line

uint64_t round_up(uint64_t value) {
  return (value + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

}  // namespace

bool decays(DecayScope scope, Role role) noexcept {
  const bool norm = role == Role::kBnWeight || role == Role::kBnBias;
  switch (scope) {
    case DecayScope::kAll:
      return true;
    case DecayScope::kWeightsOnly:
      return !norm && role != Role::kFcBias;
    case DecayScope::kNoBatchNorm:
      return !norm;
  }
  return true;
}

size_t ParameterTable::add(Parameter parameter) {
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

void ParameterTable::lay_out(std::span<const size_t> completion, uint64_t first_bucket_bytes,
                             uint64_t bucket_bytes) {
  NPU_CHECK(completion.size() == parameters_.size());
  order_.assign(completion.begin(), completion.end());
  buckets_.assign(1, Bucket{});
  uint64_t at = 0;
  for (const size_t index : order_) {
    Parameter& parameter = parameters_[index];
    const uint64_t size = round_up(parameter.physical);
    const uint64_t limit_bytes = buckets_.size() == 1 ? first_bucket_bytes : bucket_bytes;
    const bool filled = at > buckets_.back().begin;
    if (bucket_bytes != 0 && filled &&
        (at + size - buckets_.back().begin) * sizeof(float) > limit_bytes) {
      buckets_.push_back({.begin = at, .end = at});
    }
    parameter.offset = at;
    at += size;
    buckets_.back().end = at;
  }
  flat_floats_ = at;
}

uint64_t ParameterTable::end_of(size_t i) const {
  return parameters_[i].offset + round_up(parameters_[i].physical);
}

uint64_t ParameterTable::element_count() const noexcept {
  uint64_t total = 0;
  for (const Parameter& parameter : parameters_) {
    total += parameter.count;
  }
  return total;
}

uint64_t ParameterTable::hash() const noexcept {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  const auto mix = [&](std::string_view text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
  };
  for (const Parameter& parameter : parameters_) {
    mix(fmt::format("{} {} {} {};", parameter.name, parameter.offset, parameter.physical,
                    parameter.layout));
  }
  for (const Bucket& bucket : buckets_) {
    mix(fmt::format("{}-{};", bucket.begin, bucket.end));
  }
  return hash;
}

}  // namespace npu::model
