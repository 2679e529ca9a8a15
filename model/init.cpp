// Counter-based generator (SplitMix64) and the two distributions.
#include "model/init.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace npu::model {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

uint64_t mix(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Uniform doubles in (0, 1), a pure function of (seed, index, position).
class Stream {
 public:
  Stream(uint64_t seed, uint64_t index) noexcept
      : state_(mix(mix(seed + kGolden) ^ ((index + 1) * kGolden))) {}

  double uniform() noexcept {
    state_ += kGolden;
    return (static_cast<double>(mix(state_) >> 11) + 0.5) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

/// Box-Muller, both values of a pair used.
void fill_normal(Stream& stream, double deviation, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 2) {
    const double radius = deviation * std::sqrt(-2 * std::log(stream.uniform()));
    const double angle = 2 * std::numbers::pi * stream.uniform();
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

void draw_parameter(const Parameter& parameter, size_t index, uint64_t seed, int fc_inputs,
                    std::span<float> out) {
  Stream stream(seed, index);
  switch (parameter.role) {
    case Role::kConvWeight: {
      const auto fan_out =
          static_cast<double>(parameter.shape[0] * parameter.shape[2] * parameter.shape[3]);
      fill_normal(stream, std::sqrt(2 / fan_out), out);
      return;
    }
    case Role::kFcWeight:
    case Role::kFcBias: {
      const double bound = 1 / std::sqrt(static_cast<double>(fc_inputs));
      for (float& value : out) {
        value = static_cast<float>((2 * stream.uniform() - 1) * bound);
      }
      return;
    }
    case Role::kBnWeight:
      std::fill(out.begin(), out.end(), 1.0F);
      return;
    case Role::kBnBias:
      std::fill(out.begin(), out.end(), 0.0F);
      return;
  }
}

}  // namespace npu::model
