// Counter-based generator (SplitMix64) and the distributions.
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

/// Normal, values beyond two deviations drawn again.
void fill_truncated_normal(Stream& stream, double deviation, std::span<float> out) {
  for (float& value : out) {
    double z = 3;
    while (std::abs(z) > 2) {
      const double radius = std::sqrt(-2 * std::log(stream.uniform()));
      z = radius * std::cos(2 * std::numbers::pi * stream.uniform());
    }
    value = static_cast<float>(deviation * z);
  }
}

void draw_convolution(const Parameter& parameter, Stream& stream, InitForm form,
                      std::span<float> out) {
  const auto area = static_cast<double>(parameter.shape[2] * parameter.shape[3]);
  if (form == InitForm::kPytorch) {
    const double fan_out = static_cast<double>(parameter.shape[0]) * area;
    fill_normal(stream, std::sqrt(2 / fan_out), out);
    return;
  }
  // Standard deviation that is left of a standard normal cut at +-2.
  constexpr double kCutDeviation = 0.87962566103423978;
  const double fan_in = static_cast<double>(parameter.shape[1]) * area;
  fill_truncated_normal(stream, std::sqrt(2 / fan_in) / kCutDeviation, out);
}

void draw_classifier(Role role, int inputs, Stream& stream, InitForm form, std::span<float> out) {
  if (form == InitForm::kPytorch) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    for (float& value : out) {
      value = static_cast<float>((2 * stream.uniform() - 1) * bound);
    }
  } else if (role == Role::kFcWeight) {
    fill_normal(stream, 0.01, out);
  } else {
    std::fill(out.begin(), out.end(), 0.0F);
  }
}

}  // namespace

void draw_parameter(const Parameter& parameter, size_t index, uint64_t seed, int fc_inputs,
                    std::span<float> out, InitForm form) {
  Stream stream(seed, index);
  switch (parameter.role) {
    case Role::kConvWeight:
      draw_convolution(parameter, stream, form, out);
      return;
    case Role::kFcWeight:
    case Role::kFcBias:
      draw_classifier(parameter.role, fc_inputs, stream, form, out);
      return;
    case Role::kBnWeight:
      std::fill(out.begin(), out.end(), 1.0F);
      return;
    case Role::kBnBias:
      std::fill(out.begin(), out.end(), 0.0F);
      return;
  }
}

}  // namespace npu::model
