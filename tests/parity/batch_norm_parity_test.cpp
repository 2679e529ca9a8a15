// Batch norm with the ReLU and the shortcut that the passes fuse with it, on every map of the
// networks, against PyTorch in fp64.
#include <fmt/format.h>

#include <algorithm>

#include "layers.hpp"
#include "shapes.hpp"
#include "torch_parity.hpp"

namespace npu::parity {
namespace {

using model::Format;

// Relative to the largest magnitude of the tensor (of an input gradient: of the terms that it is
// the difference of).
constexpr double kBound = 1e-5;

/// One step of the format's grid at the largest magnitude: sums in another order may round the
/// other way.
double grid_bound(Format format) {
  return format == Format::kFp32 ? kBound : format == Format::kFp16 ? 0x1p-10 : 0x1p-7;
}

/// A tensor as a network stores it.
class Kept {
 public:
  Kept(const model::Passes& passes, size_t count)
      : bytes_(count * model::format_bytes(passes.format()) + 64),
        stored_{bytes_.data(), model::format_bytes(passes.format())} {}
  Kept(const model::Passes& passes, const Values& values) : Kept(passes, values.size()) {
    passes.narrow(values.data(), stored_, values.size());
  }
  [[nodiscard]] model::Stored stored() const { return stored_; }
  [[nodiscard]] Values values(const model::Passes& passes, size_t count) const {
    Values values(count);
    passes.widen(stored_, values.data(), count);
    return values;
  }

 private:
  std::vector<std::byte> bytes_;
  model::Stored stored_;
};

class BatchNormParity : public TorchParity {
 protected:
  BatchNormParity() : TorchParity("layers.py") {}

  void parameters(const std::string& suffix, const BatchNormLayer& layer) {
    const auto c = static_cast<int64_t>(layer.bn.channels);
    exchange_.input("weight" + suffix, {c}, layer.vector(layer.bn.weight));
    exchange_.input("bias" + suffix, {c}, layer.vector(layer.bn.bias));
    exchange_.input("running_mean" + suffix, {c}, layer.vector(layer.bn.running_mean));
    exchange_.input("running_var" + suffix, {c}, layer.vector(layer.bn.running_var));
  }

  void results(const std::string& suffix, const BatchNormLayer& layer) {
    const auto c = static_cast<int64_t>(layer.bn.channels);
    exchange_.output("new_mean" + suffix, {c}, layer.vector(layer.bn.running_mean), kBound);
    exchange_.output("new_var" + suffix, {c}, layer.vector(layer.bn.running_var), kBound);
    exchange_.output("dweight" + suffix, {c}, layer.vector(layer.bn.weight_gradient), kBound);
    exchange_.output("dbias" + suffix, {c}, layer.vector(layer.bn.bias_gradient), kBound);
  }

  /// relu(bn(y)) inside a block: the mask is recomputed from y.
  void inner(const MapCase& c, Format format) {
    const Exchange::Shape shape{c.batch, c.h, c.w, c.channels};
    const Values y = inputs(c, 1);
    const Values dz = random_values(y.size(), 2);
    BatchNormLayer sut(static_cast<size_t>(c.channels), 3, format);
    const Kept kept(sut.passes, y.size()), kept_dz(sut.passes, y.size());
    begin("batch_norm", c, format);
    parameters("", sut);
    sut.statistics(y, kept.stored());
    Values z(y.size()), dy(y.size());
    sut.passes.normalise(kept.stored(), y.size(), sut.bn, {}, {}, z.data());
    sut.bn.begin_backward();
    sut.passes.reduce_masked(dz.data(), kept.stored(), y.size(), sut.bn, kept_dz.stored());
    sut.finish_backward(y.size());
    sut.passes.bn_backward({.stored = kept_dz.stored()}, kept.stored(), y.size(), sut.bn, true,
                           {}, dy.data());
    exchange_.input("y", shape, y);
    exchange_.input("dz", shape, dz);
    exchange_.output("z", shape, z, grid_bound(format));
    exchange_.output("dy", shape, dy, grid_bound(format));
    results("", sut);
  }

  /// relu(bn(y) + shortcut) at a block's end, its gradient the sum of two, the mask read off z.
  void join(const MapCase& c, Format format, bool projected) {
    const Exchange::Shape shape{c.batch, c.h, c.w, c.channels};
    const Values y = inputs(c, 4);
    const Values residual = projected ? inputs(c, 5) : random_values(y.size(), 5);
    const Values dx = random_values(y.size(), 6);
    const Values add = random_values(y.size(), 7);
    const size_t n = y.size();
    BatchNormLayer sut(static_cast<size_t>(c.channels), 8, format);
    BatchNormLayer side(static_cast<size_t>(c.channels), 9, format);
    const model::Passes& passes = sut.passes;
    const Kept y_kept(passes, n), side_kept(passes, residual), add_kept(passes, add), g(passes, n);
    begin(projected ? "join_projection" : "join", c, format);
    parameters("", sut);
    if (projected) parameters("2", side);
    sut.statistics(y, y_kept.stored());
    if (projected) side.statistics(residual, side_kept.stored());
    Values z(n), dy(n), dy2(n);
    passes.normalise(y_kept.stored(), n, sut.bn,
                     {.stored = side_kept.stored(), .norm = projected ? &side.bn : nullptr}, {},
                     z.data());
    sut.bn.begin_backward();
    side.bn.begin_backward();
    // A projection's gradient comes from a convolution, an identity's from where the block's output
    // keeps it.
    model::GradientInput second{.stored = add_kept.stored()};
    if (projected) second = {.fp32 = add.data()};
    passes.join({.dx = dx.data(),
                 .add = second,
                 .z = z.data(),
                 .out = g.stored(),
                 .y = y_kept.stored(),
                 .bn = &sut.bn,
                 .y2 = projected ? side_kept.stored() : model::Stored{},
                 .bn2 = projected ? &side.bn : nullptr},
                n);
    sut.finish_backward(n);
    passes.bn_backward({.stored = g.stored()}, y_kept.stored(), n, sut.bn, false, {}, dy.data());
    exchange_.input("y", shape, y);
    exchange_.input("residual", shape, residual);
    exchange_.input("dx", shape, dx);
    exchange_.input("add", shape, add);
    exchange_.output("z", shape, z, grid_bound(format));
    exchange_.output("dy", shape, dy, grid_bound(format));
    results("", sut);
    if (!projected) {
      exchange_.output("dresidual", shape, g.values(passes, n), grid_bound(format));
      return;
    }
    side.finish_backward(n);
    passes.bn_backward({.stored = g.stored()}, side_kept.stored(), n, side.bn, false, {}, dy2.data());
    exchange_.output("dresidual", shape, dy2, grid_bound(format));
    results("2", side);
  }

  void all(const MapCase& c, Format format) {
    inner(c, format);
    join(c, format, false);
    join(c, format, true);
  }

 private:
  void begin(const std::string& kind, const MapCase& c, Format format) {
    exchange_.begin(kind, fmt::format("{}x{}x{}:n{}", c.h, c.w, c.channels, c.batch),
                    {{"half", static_cast<double>(format)}});
  }

  /// Convolution outputs: each channel about a mean of its own.
  static Values inputs(const MapCase& c, uint32_t stream) {
    const size_t channels = static_cast<size_t>(c.channels);
    Values y = random_values(static_cast<size_t>(c.batch) * static_cast<size_t>(c.h) *
                                 static_cast<size_t>(c.w) * channels,
                             stream);
    const Values mean = random_values(channels, stream + 100, -2, 2);
    for (size_t i = 0; i < y.size(); ++i) y[i] += mean[i % channels];
    // Of two values close to each other fp32 does not hold the difference; then there is nothing to
    // compare.
    if (y.size() == 2 * channels) {
      for (size_t i = 0; i < channels; ++i)
        y[channels + i] += y[channels + i] > y[i] ? 1.0F : -1.0F;
    }
    return y;
  }
};

TEST_F(BatchNormParity, MapsOfTheNetworksMatchTorch) {
  Shapes shapes;
  ASSERT_TRUE(
      shapes.add({.arch = "resnet20", .num_classes = 10, .height = 32, .width = 32, .batch = 4}));
  ASSERT_TRUE(shapes.add({.arch = "resnet20",
                          .num_classes = 10,
                          .channels = 1,
                          .height = 28,
                          .width = 28,
                          .batch = 4}));
  ASSERT_TRUE(shapes.add({.arch = "resnet50", .batch = 1}));
  for (const MapCase& c : shapes.batch_norms) all(c, Format::kFp32);
  judge();
}

TEST_F(BatchNormParity, OddMapsMatchTorch) {
  for (const int channels : {1, 3, 5, 17, 24, 300}) {
    all({2, 1, 1, channels}, Format::kFp32);
    all({1, 3, 7, channels}, Format::kFp32);
    all({3, 8, 2, channels}, Format::kFp32);
    all({5, 40, 41, channels}, Format::kFp32);
  }
  judge();
}

// PyTorch has no such passes on the CPU: against low_precision.py, equal but for values that lie
// next to the middle between two halves.
TEST_F(BatchNormParity, HalfPassesRoundWhereTheReferenceDoes) {
  for (const Format format : {Format::kFp16, Format::kBf16}) {
    for (const int channels : {3, 17, 64, 272}) {
      all({1, 3, 7, channels}, format);
      all({4, 16, 15, channels}, format);
    }
  }
  judge();
}

}  // namespace
}  // namespace npu::parity
