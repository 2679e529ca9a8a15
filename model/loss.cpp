// Softmax, cross entropy, its gradient and the top-k counts of one batch.
#include "model/loss.hpp"

#include <cmath>

namespace npu::model {
namespace {

/// True when fewer than k classes beat the label: a larger logit, or an equal one with a lower
/// index.
bool in_top_k(std::span<const float> z, int32_t label, int k) {
  const float own = z[static_cast<size_t>(label)];
  int better = 0;
  for (size_t j = 0; j < z.size(); ++j) {
    if (std::isnan(z[j])) return false;
    better += z[j] > own || (z[j] == own && j < static_cast<size_t>(label)) ? 1 : 0;
  }
  return better < k;
}

struct Sample {
  std::span<const float> z;
  int32_t label;
  float smoothing;
};

/// log(sum(exp(z))) with the maximum taken out.
float log_sum_exp(std::span<const float> z) {
  float top = z[0];
  for (const float v : z) {
    if (v > top || std::isnan(v)) top = v;
  }
  float sum = 0;
  for (const float v : z) {
    sum += std::exp(v - top);
  }
  return top + std::log(sum);
}

float sample_loss(const Sample& s, float lse) {
  const float plain = lse - s.z[static_cast<size_t>(s.label)];
  if (s.smoothing == 0) return plain;
  float all = 0;
  for (const float v : s.z) {
    all += lse - v;
  }
  return (1 - s.smoothing) * plain + s.smoothing / static_cast<float>(s.z.size()) * all;
}

void sample_gradient(const Sample& s, float lse, float scale, float* out) {
  const float spread = s.smoothing / static_cast<float>(s.z.size());
  for (size_t j = 0; j < s.z.size(); ++j) {
    const float target = spread + (j == static_cast<size_t>(s.label) ? 1 - s.smoothing : 0.0F);
    out[j] = (std::exp(s.z[j] - lse) - target) * scale;
  }
}

}  // namespace

LossAndHits& LossAndHits::operator+=(const LossAndHits& other) noexcept {
  loss_sum += other.loss_sum;
  top1 += other.top1;
  top5 += other.top5;
  return *this;
}

Result<LossAndHits> softmax_cross_entropy(std::span<const float> logits,
                                          std::span<const int32_t> labels, int classes,
                                          float label_smoothing, float scale,
                                          std::span<float> gradient) {
  const auto k = static_cast<size_t>(classes);
  if (logits.size() != labels.size() * k ||
      (!gradient.empty() && gradient.size() != logits.size())) {
    return fail(Code::kInvalidArgument,
                "loss: {} logits and {} gradients do not fit {} labels of {} classes",
                logits.size(), gradient.size(), labels.size(), classes);
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      return fail(
          Code::kInvalidArgument,
          "loss: label {} of sample {} is outside 0..{}; check num_classes and the data set",
          labels[i], i, classes - 1);
    }
  }
  LossAndHits total;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Sample sample{logits.subspan(i * k, k), labels[i], label_smoothing};
    const float lse = log_sum_exp(sample.z);
    total.loss_sum += static_cast<double>(sample_loss(sample, lse));
    total.top1 += in_top_k(sample.z, labels[i], 1) ? 1 : 0;
    total.top5 += in_top_k(sample.z, labels[i], 5) ? 1 : 0;
    if (!gradient.empty()) {
      sample_gradient(sample, lse, scale, gradient.data() + i * k);
    }
  }
  return total;
}

}  // namespace npu::model
