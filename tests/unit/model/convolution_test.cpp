// oneDNN convolutions in the layouts we keep, against seven plain loops in fp64.
#include "model/primitives/convolution.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>

#include "model/primitives/weight_gemm.hpp"
#include "random_values.hpp"

namespace npu::model {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};

/// Aligned, zeroed floats.
class Buffer {
 public:
  explicit Buffer(uint64_t bytes) : data_(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {
    std::fill_n(floats(), bytes / sizeof(float), 0.0F);
  }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data_.get()); }
  [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(data_.get()); }

 private:
  std::unique_ptr<void, Free> data_;
};

/// Visits every product of the convolution: body(src index, weight index, dst index).
void each_product(const ConvShape& s, const std::function<void(size_t, size_t, size_t)>& body) {
  for (int n = 0; n < s.batch; ++n)
    for (int oh = 0; oh < s.out_h(); ++oh)
      for (int ow = 0; ow < s.out_w(); ++ow)
        for (int o = 0; o < s.out_c; ++o)
          for (int kh = 0; kh < s.kernel; ++kh)
            for (int kw = 0; kw < s.kernel; ++kw)
              for (int i = 0; i < s.in_c; ++i) {
                const int h = oh * s.stride - s.pad() + kh;
                const int w = ow * s.stride - s.pad() + kw;
                if (h < 0 || w < 0 || h >= s.in_h || w >= s.in_w) continue;
                body(static_cast<size_t>(((n * s.in_h + h) * s.in_w + w) * s.in_c + i),
                     static_cast<size_t>(((o * s.in_c + i) * s.kernel + kh) * s.kernel + kw),
                     static_cast<size_t>(((n * s.out_h() + oh) * s.out_w() + ow) * s.out_c + o));
              }
}

double largest_difference(const std::vector<double>& want, const float* got) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, std::abs(want[i] - static_cast<double>(got[i])));
  }
  return worst;
}

class ConvolutionOf : public testing::TestWithParam<ConvShape> {
 protected:
  void SetUp() override {
    auto context = Context::create();
    ASSERT_TRUE(context);
    const ConvShape& s = GetParam();
    auto made = Convolution::for_training(*context, s, true);
    ASSERT_TRUE(made) << made.error().message;
    sut_ = std::move(*made);
    ConvShape one = s;
    one.batch = 1;
    auto eval = Convolution::for_evaluation(*context, one, sut_.get());
    ASSERT_TRUE(eval) << eval.error().message;
    eval_ = std::move(*eval);
    const auto size = [](int n, int h, int w, int c) { return static_cast<size_t>(n * h * w * c); };
    src_ = test::random_values(size(s.batch, s.in_h, s.in_w, s.in_c), 1);
    plain_ = test::random_values(size(s.out_c, s.in_c, s.kernel, s.kernel), 2);
    diff_ = test::random_values(size(s.batch, s.out_h(), s.out_w(), s.out_c), 3);
    scratch_ = std::make_unique<Buffer>(std::max(sut_->scratch_bytes(), eval_->scratch_bytes()));
    master_ = std::make_unique<Buffer>(sut_->weights_bytes());
    sut_->from_plain(plain_.data(), master_->floats(), scratch_->bytes());
  }

  /// The weights as `conv` reads them forward.
  const float* forward_weights(Convolution& conv, Buffer& own) {
    if (conv.forward_weights_bytes() == 0) return master_->floats();
    conv.make_forward_weights(master_->floats(), own.floats(), scratch_->bytes());
    return own.floats();
  }

  std::unique_ptr<Convolution> sut_, eval_;
  std::vector<float> src_, plain_, diff_;
  std::unique_ptr<Buffer> scratch_, master_;
};

TEST_P(ConvolutionOf, ForwardMatchesPlainLoops) {
  std::vector<double> want(diff_.size());
  each_product(GetParam(), [&](size_t x, size_t w, size_t y) {
    want[y] += static_cast<double>(src_[x]) * static_cast<double>(plain_[w]);
  });
  Buffer own(sut_->forward_weights_bytes());
  std::vector<float> got(diff_.size());
  sut_->forward(src_.data(), forward_weights(*sut_, own), got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 6e-5) << sut_->implementations();
  Buffer eval_own(eval_->forward_weights_bytes());
  std::vector<float> first(diff_.size() / static_cast<size_t>(GetParam().batch));
  eval_->forward(src_.data(), forward_weights(*eval_, eval_own), first.data(), scratch_->bytes());
  want.resize(first.size());
  EXPECT_LE(largest_difference(want, first.data()), 6e-5) << eval_->implementations();
}

TEST_P(ConvolutionOf, InputGradientMatchesPlainLoops) {
  std::vector<double> want(src_.size());
  each_product(GetParam(), [&](size_t x, size_t w, size_t y) {
    want[x] += static_cast<double>(diff_[y]) * static_cast<double>(plain_[w]);
  });
  Buffer own(sut_->backward_weights_bytes());
  const float* weights = master_->floats();
  if (sut_->backward_weights_bytes() != 0) {
    sut_->make_backward_weights(weights, own.floats(), scratch_->bytes());
    weights = own.floats();
  }
  std::vector<float> got(src_.size());
  sut_->backward_data(diff_.data(), weights, got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 6e-5) << sut_->implementations();
}

TEST_P(ConvolutionOf, WeightGradientMatchesPlainLoopsAndPaddingStaysZero) {
  std::vector<double> want(plain_.size());
  each_product(GetParam(), [&](size_t x, size_t w, size_t y) {
    want[w] += static_cast<double>(src_[x]) * static_cast<double>(diff_[y]);
  });
  Buffer gradient(sut_->weights_bytes());
  std::fill_n(gradient.floats(), sut_->weights_bytes() / sizeof(float), 9.0F);
  if (const WeightGemm* gemm = sut_->weight_gemm()) {
    Buffer product(gemm->gradient_bytes());
    Buffer patches(gemm->patch_bytes());
    gemm->run(src_.data(), diff_.data(), false, product.floats(), patches.floats());
    sut_->gemm_to_master(product.floats(), gradient.floats(), scratch_->bytes());
  } else {
    sut_->backward_weights(src_.data(), diff_.data(), gradient.floats(), scratch_->bytes());
  }
  std::vector<float> got(plain_.size());
  sut_->to_plain(gradient.floats(), got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 2e-4) << sut_->implementations();
  double in_layout = 0;
  double in_plain = 0;
  for (size_t i = 0; i < sut_->weights_bytes() / sizeof(float); ++i) {
    in_layout += std::abs(static_cast<double>(gradient.floats()[i]));
  }
  for (const float v : got) in_plain += std::abs(static_cast<double>(v));
  EXPECT_NEAR(in_layout, in_plain, 1e-6 * in_plain);
}

TEST_P(ConvolutionOf, GatheredProductMatchesPlainLoopsAndAddsUp) {
  const ConvShape& s = GetParam();
  std::vector<double> want(plain_.size());
  each_product(s, [&](size_t x, size_t w, size_t y) {
    want[w] += 2 * static_cast<double>(src_[x]) * static_cast<double>(diff_[y]);
  });
  const WeightGemm sut(s);
  Buffer product(sut.gradient_bytes());
  Buffer patches(sut.patch_bytes());
  std::fill_n(product.floats(), plain_.size(), 9.0F);
  sut.run(src_.data(), diff_.data(), false, product.floats(), patches.floats());
  sut.run(src_.data(), diff_.data(), true, product.floats(), patches.floats());
  // [out][kernel][kernel][in] to [out][in][kernel][kernel].
  std::vector<float> got(plain_.size());
  const auto taps = static_cast<size_t>(s.kernel * s.kernel);
  const auto in = static_cast<size_t>(s.in_c);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t tap = i % taps;
    const size_t channel = i / taps % in;
    got[i] = product.floats()[(i / taps / in * taps + tap) * in + channel];
  }
  EXPECT_LE(largest_difference(want, got.data()), 8e-4);
}

TEST_P(ConvolutionOf, PlainWeightsSurviveTheRoundTrip) {
  std::vector<float> back(plain_.size());
  sut_->to_plain(master_->floats(), back.data(), scratch_->bytes());
  EXPECT_EQ(back, plain_);
}

const auto kShapes =
    testing::Values(ConvShape{2, 7, 9, 1, 16, 3, 1}, ConvShape{2, 9, 9, 16, 16, 3, 1},
                    ConvShape{3, 8, 8, 16, 32, 3, 2}, ConvShape{2, 21, 21, 3, 64, 7, 2},
                    ConvShape{2, 6, 6, 64, 256, 1, 1}, ConvShape{2, 7, 7, 64, 128, 1, 2},
                    ConvShape{2, 7, 7, 128, 128, 3, 2}, ConvShape{1, 1, 1, 64, 64, 3, 1},
                    ConvShape{3, 13, 17, 32, 48, 3, 1}, ConvShape{2, 14, 13, 128, 64, 1, 2},
                    ConvShape{2, 3, 7, 128, 24, 1, 1});

INSTANTIATE_TEST_SUITE_P(Shapes, ConvolutionOf, kShapes);

/// Values that bf16 holds, in both types.
struct Bf16Values {
  explicit Bf16Values(std::vector<float> random) : fp32(std::move(random)) {
    for (float& value : fp32) {
      const auto bits = std::bit_cast<uint32_t>(value);
      const uint32_t nearest_even = bits + 0x7fffU + ((bits >> 16) & 1U);
      bf16.push_back(static_cast<uint16_t>(nearest_even >> 16));
      value = std::bit_cast<float>(uint32_t{bf16.back()} << 16);
    }
  }
  std::vector<float> fp32;
  std::vector<uint16_t> bf16;
};

/// Products of two bf16 values are exact in fp32, so the bounds are those of fp32 operands.
class Bf16ConvolutionOf : public testing::TestWithParam<ConvShape> {
 protected:
  void SetUp() override {
    if (!has_bf16_products()) GTEST_SKIP() << "this processor does not multiply bf16";
    auto context = Context::create();
    ASSERT_TRUE(context);
    auto made = Convolution::for_training(*context, shape_, true, Operands::kBf16);
    ASSERT_TRUE(made) << made.error().message;
    sut_ = std::move(*made);
    scratch_ = std::make_unique<Buffer>(sut_->scratch_bytes());
    master_ = std::make_unique<Buffer>(sut_->weights_bytes());
    // Not rounded beforehand: making the copies rounds to nearest even.
    sut_->from_plain(unrounded_.data(), master_->floats(), scratch_->bytes());
  }

  static Bf16Values values(int n, int h, int w, int c, uint32_t seed) {
    return Bf16Values(test::random_values(static_cast<size_t>(n * h * w * c), seed));
  }

  const ConvShape& shape_ = GetParam();
  Bf16Values src_ = values(shape_.batch, shape_.in_h, shape_.in_w, shape_.in_c, 1);
  Bf16Values diff_ = values(shape_.batch, shape_.out_h(), shape_.out_w(), shape_.out_c, 3);
  std::vector<float> unrounded_ = test::random_values(
      static_cast<size_t>(shape_.out_c * shape_.in_c * shape_.kernel * shape_.kernel), 2);
  Bf16Values weights_{unrounded_};
  std::unique_ptr<Convolution> sut_;
  std::unique_ptr<Buffer> scratch_, master_;
};

TEST_P(Bf16ConvolutionOf, ForwardMatchesPlainLoops) {
  std::vector<double> want(diff_.fp32.size());
  each_product(shape_, [&](size_t x, size_t w, size_t y) {
    want[y] += static_cast<double>(src_.fp32[x]) * static_cast<double>(weights_.fp32[w]);
  });
  ASSERT_NE(sut_->forward_weights_bytes(), 0u);
  Buffer own(sut_->forward_weights_bytes());
  sut_->make_forward_weights(master_->floats(), own.bytes(), scratch_->bytes());
  std::vector<float> got(want.size());
  sut_->forward(src_.bf16.data(), own.bytes(), got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 6e-5) << sut_->implementations();
}

TEST_P(Bf16ConvolutionOf, InputGradientMatchesPlainLoops) {
  std::vector<double> want(src_.fp32.size());
  each_product(shape_, [&](size_t x, size_t w, size_t y) {
    want[x] += static_cast<double>(diff_.fp32[y]) * static_cast<double>(weights_.fp32[w]);
  });
  ASSERT_NE(sut_->backward_weights_bytes(), 0u);
  Buffer own(sut_->backward_weights_bytes());
  sut_->make_backward_weights(master_->floats(), own.bytes(), scratch_->bytes());
  std::vector<float> got(want.size());
  sut_->backward_data(diff_.bf16.data(), own.bytes(), got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 6e-5) << sut_->implementations();
}

TEST_P(Bf16ConvolutionOf, WeightGradientMatchesPlainLoops) {
  std::vector<double> want(unrounded_.size());
  each_product(shape_, [&](size_t x, size_t w, size_t y) {
    want[w] += static_cast<double>(src_.fp32[x]) * static_cast<double>(diff_.fp32[y]);
  });
  Buffer gradient(sut_->weights_bytes());
  sut_->backward_weights(src_.bf16.data(), diff_.bf16.data(), gradient.floats(),
                         scratch_->bytes());
  std::vector<float> got(want.size());
  sut_->to_plain(gradient.floats(), got.data(), scratch_->bytes());
  EXPECT_LE(largest_difference(want, got.data()), 2e-4) << sut_->implementations();
}

TEST_P(Bf16ConvolutionOf, EvaluationReadsTheSameWeightsInFp32) {
  std::vector<double> want(diff_.fp32.size());
  each_product(shape_, [&](size_t x, size_t w, size_t y) {
    want[y] += static_cast<double>(src_.fp32[x]) * static_cast<double>(unrounded_[w]);
  });
  auto context = Context::create();
  ASSERT_TRUE(context);
  auto eval = Convolution::for_evaluation(*context, shape_, sut_.get());
  ASSERT_TRUE(eval) << eval.error().message;
  Buffer scratch((*eval)->scratch_bytes());
  Buffer own((*eval)->forward_weights_bytes());
  const float* weights = master_->floats();
  if ((*eval)->forward_weights_bytes() != 0) {
    (*eval)->make_forward_weights(weights, own.floats(), scratch.bytes());
    weights = own.floats();
  }
  std::vector<float> got(want.size());
  (*eval)->forward(src_.fp32.data(), weights, got.data(), scratch.bytes());
  EXPECT_LE(largest_difference(want, got.data()), 6e-5) << (*eval)->implementations();
}

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16ConvolutionOf, kShapes);

}  // namespace
}  // namespace npu::model
