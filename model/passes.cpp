// Blocks, threads and the order in which partial sums are added.
#include "model/passes.hpp"

#include <algorithm>

namespace npu::model {
namespace {

/// Elements of a block: about 128 KiB, so that a block stays in L2 between its load and its fold,
/// and at least 64 rows, so that the fold of the sums stays small. Fp32 sums run over one block
/// only.
size_t block_elements(size_t width) { return width * std::max<size_t>(64, 32768 / width); }

/// "Row" of passes that have no channels.
constexpr size_t kFlatWidth = 256;

size_t block_count(size_t elements, size_t block) { return (elements + block - 1) / block; }

void fold(const float* partial, size_t channels, size_t width, double* out) {
  for (size_t at = 0; at < width; at += channels) {
    for (size_t c = 0; c < channels; ++c) {
      out[c] += static_cast<double>(partial[at + c]);
    }
  }
}

}  // namespace

uint64_t Passes::partial_floats(int threads, size_t width) {
  return static_cast<uint64_t>(threads) * 3 * width;
}

template <typename Body>
void Passes::each_block(size_t elements, size_t width, const Body& body) const {
  if (threads_ == 1) {
    body(size_t{0}, elements);
    return;
  }
  const size_t block = block_elements(width);
  const auto count = static_cast<int64_t>(block_count(elements, block));
#pragma omp parallel for num_threads(threads_) schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i) * block;
    body(at, std::min(block, elements - at));
  }
}

template <typename Body, typename Fold>
void Passes::reduce_blocks(size_t elements, size_t width, size_t sums, const Body& body,
                           const Fold& fold_one) const {
  const size_t block = block_elements(width);
  const size_t count = block_count(elements, block);
  const auto team = static_cast<size_t>(threads_);
  for (size_t first = 0; first < count; first += team) {
    const size_t in_flight = std::min(team, count - first);
    const auto run = [&](size_t slot) {
      float* partial = partial_ + slot * 3 * partial_width_;
      std::fill_n(partial, sums * width, 0.0F);
      const size_t at = (first + slot) * block;
      body(at, std::min(block, elements - at), partial);
    };
    if (in_flight == 1) {
      run(0);
    } else {
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
      for (int64_t slot = 0; slot < static_cast<int64_t>(in_flight); ++slot) {
        run(static_cast<size_t>(slot));
      }
    }
    for (size_t slot = 0; slot < in_flight; ++slot) {
      fold_one(partial_ + slot * 3 * partial_width_);
    }
  }
}

namespace {

std::byte* at_or_null(Stored tensor, size_t elements) {
  return tensor ? tensor.at(elements).data : nullptr;
}

template <typename T>
T* at_or_null(T* tensor, size_t elements) {
  return tensor == nullptr ? nullptr : tensor + elements;
}

size_t element_bytes(Stored tensor) { return tensor ? tensor.element_bytes : 0; }
size_t element_bytes(const float* tensor) { return tensor == nullptr ? 0 : sizeof(float); }

/// A pass that reads or writes each of the tensors once.
template <typename... Tensors>
KernelWork pass(KernelKind kind, size_t elements, Tensors... tensors) {
  return {kind, 0, elements * (element_bytes(tensors) + ...)};
}

}  // namespace

void Passes::moments(const float* y, size_t elements, BatchNorm& bn, Stored keep) const {
  const Timed timed(profile_, &bn, pass(KernelKind::kMoments, elements, y, keep));
  reduce_blocks(
      elements, bn.width, 2,
      [&](size_t at, size_t n, float* partial) {
        kernels_->moments({.x = y + at,
                           .keep = at_or_null(keep, at),
                           .pivot = bn.mean,
                           .sum = partial,
                           .square = partial + bn.width},
                          {n, bn.width});
      },
      [&](const float* partial) {
        fold(partial, bn.channels, bn.width, bn.sum);
        fold(partial + bn.width, bn.channels, bn.width, bn.square);
      });
}

void Passes::normalise(Stored y, size_t elements, const BatchNorm& bn,
                       const ResidualInput& residual, Stored keep, float* out) const {
  const Timed timed(
      profile_, &bn,
      pass(KernelKind::kNormalise, elements, y, residual.stored, residual.fp32, keep, out));
  each_block(elements, bn.width, [&](size_t at, size_t n) {
    kernels_->normalise(
        {.y = y.at(at).data,
         .scale = bn.scale,
         .shift = bn.shift,
         .residual = at_or_null(residual.stored, at),
         .residual_scale = residual.norm == nullptr ? nullptr : residual.norm->scale,
         .residual_shift = residual.norm == nullptr ? nullptr : residual.norm->shift,
         .residual_fp32 = at_or_null(residual.fp32, at),
         .keep = at_or_null(keep, at),
         .out = at_or_null(out, at)},
        {n, bn.width});
  });
}

void Passes::reduce_masked(const float* dz, Stored y, size_t elements, BatchNorm& bn,
                           Stored keep) const {
  const Timed timed(profile_, &bn, pass(KernelKind::kReduce, elements, dz, y, keep));
  reduce_blocks(
      elements, bn.width, 2,
      [&](size_t at, size_t n, float* partial) {
        kernels_->reduce_masked({.dz = dz + at,
                                 .keep = at_or_null(keep, at),
                                 .y = y.at(at).data,
                                 .scale = bn.scale,
                                 .shift = bn.shift,
                                 .mean = bn.mean,
                                 .sum = partial,
                                 .dot = partial + bn.width},
                                {n, bn.width});
      },
      [&](const float* partial) {
        fold(partial, bn.channels, bn.width, bn.sum);
        fold(partial + bn.width, bn.channels, bn.width, bn.square);
      });
}

void Passes::bn_backward(const GradientInput& dz, Stored y, size_t elements, const BatchNorm& bn,
                         bool masked, Stored keep, float* out) const {
  const Timed timed(profile_, &bn,
                    pass(KernelKind::kBnBackward, elements, dz.stored, dz.fp32, y, keep, out));
  each_block(elements, bn.width, [&](size_t at, size_t n) {
    kernels_->bn_backward({.dz = at_or_null(dz.stored, at),
                           .dz_fp32 = at_or_null(dz.fp32, at),
                           .y = y.at(at).data,
                           .scale = masked ? bn.scale : nullptr,
                           .shift = bn.shift,
                           .mean = bn.mean,
                           .a = bn.a,
                           .b = bn.b,
                           .c = bn.c,
                           .keep = at_or_null(keep, at),
                           .out = at_or_null(out, at)},
                          {n, bn.width});
  });
}

void Passes::join(const Join& j, size_t elements) const {
  const Timed timed(
      profile_, j.bn,
      pass(KernelKind::kJoin, elements, j.dx, j.add.stored, j.add.fp32, j.z, j.out, j.y, j.y2));
  const size_t width = j.bn->width;
  reduce_blocks(
      elements, width, 3,
      [&](size_t at, size_t n, float* partial) {
        kernels_->join({.dx = j.dx + at,
                        .add = at_or_null(j.add.stored, at),
                        .add_fp32 = at_or_null(j.add.fp32, at),
                        .z = j.z + at,
                        .out = j.out.at(at).data,
                        .y = j.y.at(at).data,
                        .mean = j.bn->mean,
                        .sum = partial,
                        .dot = partial + width,
                        .y2 = at_or_null(j.y2, at),
                        .mean2 = j.y2 ? j.bn2->mean : nullptr,
                        .dot2 = partial + 2 * width},
                       {n, width});
      },
      [&](const float* partial) {
        const size_t channels = j.bn->channels;
        fold(partial, channels, width, j.bn->sum);
        fold(partial + width, channels, width, j.bn->square);
        if (!j.y2) return;
        fold(partial, channels, width, j.bn2->sum);
        fold(partial + 2 * width, channels, width, j.bn2->square);
      });
}

void Passes::merge(const float* dx, const GradientInput& add, Stored out, size_t count) const {
  const Timed timed(profile_, nullptr,
                    pass(KernelKind::kJoin, count, dx, add.stored, add.fp32, out));
  each_block(count, kFlatWidth, [&](size_t at, size_t n) {
    kernels_->merge({.dx = dx + at,
                     .add = at_or_null(add.stored, at),
                     .add_fp32 = at_or_null(add.fp32, at),
                     .out = out.at(at).data},
                    n);
  });
}

void Passes::widen(Stored in, float* out, size_t count) const {
  const Timed timed(profile_, nullptr, pass(KernelKind::kConvert, count, in, out));
  each_block(count, kFlatWidth,
             [&](size_t at, size_t n) { kernels_->widen(in.at(at).data, out + at, n); });
}

void Passes::narrow(const float* in, Stored out, size_t count) const {
  const Timed timed(profile_, nullptr, pass(KernelKind::kConvert, count, in, out));
  each_block(count, kFlatWidth,
             [&](size_t at, size_t n) { kernels_->narrow(in + at, out.at(at).data, n); });
}

void Passes::round(const float* in, float* out, size_t count) const {
  const Timed timed(profile_, nullptr, pass(KernelKind::kConvert, count, in, out));
  each_block(count, kFlatWidth,
             [&](size_t at, size_t n) { kernels_->round(in + at, out + at, n); });
}

void Passes::add(const float* a, const float* b, float* out, size_t count) const {
  const Timed timed(profile_, nullptr, pass(KernelKind::kAdd, count, a, b, out));
  each_block(count, kFlatWidth,
             [&](size_t at, size_t n) { kernels_->add(a + at, b + at, out + at, n); });
}

void Passes::sgd(const SgdArgs& args, size_t count) const {
  const Timed timed(profile_, this,
                    pass(KernelKind::kSgd, count, args.parameters, args.parameters, args.momentum,
                         args.momentum, args.gradient));
  each_block(count, kFlatWidth, [&](size_t at, size_t n) {
    SgdArgs part = args;
    part.parameters += at;
    part.momentum += at;
    part.gradient += at;
    kernels_->sgd(part, n);
  });
}

}  // namespace npu::model
