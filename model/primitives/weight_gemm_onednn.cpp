// Gathering and the product.
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "model/primitives/weight_gemm.hpp"

namespace npu::model {
namespace {

/// Rows of one product: enough to pay for packing, few enough for the patches to stay in L2.
constexpr int64_t kBlockPixels = 256;

}  // namespace

bool WeightGemm::pays(const ConvShape& s) {
  if (dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx2) return false;
  if (s.kernel == 3) return s.in_c >= 32;
  if (s.kernel != 1) return false;
  // Below this size of the result sgemm does not pack, which costs it half its speed.
  const bool packs = 1.0 / s.in_c + 1.0 / s.out_c < 0.0038;
  return packs || (s.stride == 2 && s.out_h() <= 14 && s.in_c >= 128);
}

int64_t WeightGemm::patch_floats() const noexcept {
  return int64_t{shape_.kernel} * shape_.kernel * shape_.in_c;
}

int64_t WeightGemm::pixels() const noexcept {
  return int64_t{shape_.batch} * shape_.out_h() * shape_.out_w();
}

int64_t WeightGemm::block_pixels() const noexcept {
  return reads_input() ? pixels() : std::min(pixels(), kBlockPixels);
}

uint64_t WeightGemm::gradient_bytes() const noexcept {
  return static_cast<uint64_t>(patch_floats() * shape_.out_c) * sizeof(float);
}

uint64_t WeightGemm::patch_bytes() const noexcept {
  return reads_input() ? 0 : static_cast<uint64_t>(block_pixels() * patch_floats()) * sizeof(float);
}

KernelWork WeightGemm::work() const noexcept {
  const auto in = int64_t{shape_.batch} * shape_.in_h * shape_.in_w * shape_.in_c;
  const int64_t floats = in + pixels() * shape_.out_c + patch_floats() * shape_.out_c;
  return {KernelKind::kConvBackwardWeights,
          static_cast<uint64_t>(2 * pixels() * patch_floats() * shape_.out_c),
          static_cast<uint64_t>(floats) * sizeof(float)};
}

/// The pixels of one kernel row, left to right, that output pixel x reads from input row y.
void WeightGemm::gather_row(const float* image, int y, int x, float* out) const {
  const int channels = shape_.in_c;
  const int first = x * shape_.stride - shape_.pad();
  const int from = std::clamp(first, 0, shape_.in_w);
  const int to = std::clamp(first + shape_.kernel, 0, shape_.in_w);
  if (y < 0 || y >= shape_.in_h || from >= to) {
    std::fill_n(out, shape_.kernel * channels, 0.0F);
    return;
  }
  out = std::fill_n(out, (from - first) * channels, 0.0F);
  out = std::copy_n(image + (int64_t{y} * shape_.in_w + from) * channels, (to - from) * channels,
                    out);
  std::fill_n(out, (first + shape_.kernel - to) * channels, 0.0F);
}

void WeightGemm::gather(const float* src, int64_t first, int64_t count, float* patches) const {
  const int out_h = shape_.out_h();
  const int out_w = shape_.out_w();
  const int64_t image_floats = int64_t{shape_.in_h} * shape_.in_w * shape_.in_c;
  const int64_t row_floats = int64_t{shape_.kernel} * shape_.in_c;
#pragma omp parallel for schedule(static) if (omp_get_max_threads() > 1)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t pixel = first + i;
    const int x = static_cast<int>(pixel % out_w);
    const int y = static_cast<int>(pixel / out_w % out_h);
    const float* image = src + pixel / out_w / out_h * image_floats;
    float* patch = patches + i * patch_floats();
    for (int row = 0; row < shape_.kernel; ++row) {
      gather_row(image, y * shape_.stride - shape_.pad() + row, x, patch + row * row_floats);
    }
  }
}

void WeightGemm::run(const float* src, const float* diff_dst, bool accumulate, float* gradient,
                     float* patches) const {
  const int64_t columns = patch_floats();
  for (int64_t first = 0; first < pixels(); first += block_pixels()) {
    const int64_t count = std::min(block_pixels(), pixels() - first);
    if (!reads_input()) gather(src, first, count, patches);
    const float keep = first > 0 || accumulate ? 1.0F : 0.0F;
    const dnnl_status_t status =
        dnnl_sgemm('T', 'N', shape_.out_c, columns, count, 1.0F, diff_dst + first * shape_.out_c,
                   shape_.out_c, reads_input() ? src : patches, columns, keep, gradient, columns);
    NPU_CHECK_MSG(status == dnnl_success, "sgemm of a weight gradient");
  }
}

}  // namespace npu::model
