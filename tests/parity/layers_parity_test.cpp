// Every layer shape of the networks, forward and backward, against PyTorch in fp64; odd shapes
// besides.
#include <fmt/format.h>

#include <algorithm>

#include "layers.hpp"
#include "model/loss.hpp"
#include "model/sgd.hpp"
#include "shapes.hpp"
#include "torch_parity.hpp"

namespace npu::parity {
namespace {

// Relative to the largest magnitude of the tensor.
constexpr double kBound = 1e-5;

/// What trains on the shipped data sets and on ImageNet: all kernels, strides, widths and map sizes
/// of each family.
const model::NetworkConfig kSmallNetworks[] = {
    {.arch = "resnet20", .num_classes = 10, .height = 32, .width = 32, .batch = 4},
    {.arch = "resnet20", .num_classes = 10, .channels = 1, .height = 28, .width = 28, .batch = 4},
    {.arch = "resnet8", .num_classes = 7, .height = 17, .width = 24, .batch = 3},
    {.arch = "resnet18-32", .num_classes = 10, .height = 32, .width = 32, .batch = 1},
    {.arch = "resnet50-32", .num_classes = 10, .height = 32, .width = 32, .batch = 1},
};
const model::NetworkConfig kImagenetNetworks[] = {
    {.arch = "resnet50", .num_classes = 1000, .batch = 1},
    {.arch = "resnet18", .num_classes = 1000, .batch = 1},
    {.arch = "resnet18", .num_classes = 10, .height = 64, .width = 64, .batch = 2},
};

Shapes shapes_of(std::span<const model::NetworkConfig> networks) {
  Shapes shapes;
  for (const model::NetworkConfig& network : networks) {
    const auto added = shapes.add(network);
    EXPECT_TRUE(added) << added.error().message;
  }
  return shapes;
}

size_t product(std::initializer_list<int64_t> extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return static_cast<size_t>(count);
}

class LayersParity : public TorchParity {
 protected:
  LayersParity() : TorchParity("layers.py") {}

  void convolution(const ConvolutionCase& c) {
    const model::ConvShape& s = c.shape;
    const Exchange::Shape x_shape{s.batch, s.in_h, s.in_w, s.in_c};
    const Exchange::Shape w_shape{s.out_c, s.in_c, s.kernel, s.kernel};
    const Exchange::Shape y_shape{s.batch, s.out_h(), s.out_w(), s.out_c};
    const Values x = random_values(product(x_shape), 1);
    const Values w = random_values(product(w_shape), 2);
    const Values dy = random_values(product(y_shape), 3);
    const auto run = run_convolution(s, c.needs_input_gradient, x, w, dy);
    ASSERT_TRUE(run) << run.error().message;
    exchange_.begin("convolution",
                    fmt::format("{}x{}/{}:{}->{}:{}x{}:n{}", s.kernel, s.kernel, s.stride, s.in_c,
                                s.out_c, s.in_h, s.in_w, s.batch),
                    {{"stride", s.stride}, {"pad", s.pad()}});
    exchange_.input("x", x_shape, x);
    exchange_.input("w", w_shape, w);
    exchange_.input("dy", y_shape, dy);
    exchange_.output("y", y_shape, run->y, kBound);
    exchange_.output("dw", w_shape, run->dw, kBound);
    exchange_.output("dw_product", {s.out_c, s.kernel, s.kernel, s.in_c}, run->dw_product, kBound);
    if (c.needs_input_gradient) exchange_.output("dx", x_shape, run->dx, kBound);
  }

  void max_pool(const MapCase& c) {
    const Exchange::Shape x_shape{1, c.h, c.w, c.channels};
    const Exchange::Shape y_shape{1, (c.h - 1) / 2 + 1, (c.w - 1) / 2 + 1, c.channels};
    // Negative values at the border meet the padding; zeros, as behind a ReLU, make ties.
    Values x = random_values(product(x_shape), 1);
    for (size_t i = 0; i < x.size(); i += 3) x[i] = 0;
    const Values dy = random_values(product(y_shape), 3);
    const auto run = run_max_pool(c.h, c.w, c.channels, x, dy);
    ASSERT_TRUE(run) << run.error().message;
    exchange_.begin("max_pool", fmt::format("{}x{}x{}", c.h, c.w, c.channels));
    exchange_.input("x", x_shape, x);
    exchange_.input("dy", y_shape, dy);
    exchange_.output("y", y_shape, run->y, 0);
    exchange_.output("dx", x_shape, run->dx, kBound);
  }

  void linear(const LinearCase& c) {
    const Values x = random_values(product({c.batch, c.in}), 1);
    const Values w = random_values(product({c.out, c.in}), 2);
    const Values b = random_values(product({c.out}), 3);
    const Values dy = random_values(product({c.batch, c.out}), 4);
    const auto run = run_linear(c.batch, c.in, c.out, x, w, b, dy);
    ASSERT_TRUE(run) << run.error().message;
    exchange_.begin("linear", fmt::format("{}->{}:n{}", c.in, c.out, c.batch));
    exchange_.input("x", {c.batch, c.in}, x);
    exchange_.input("w", {c.out, c.in}, w);
    exchange_.input("b", {c.out}, b);
    exchange_.input("dy", {c.batch, c.out}, dy);
    exchange_.output("y", {c.batch, c.out}, run->y, kBound);
    exchange_.output("dx", {c.batch, c.in}, run->dx, kBound);
    exchange_.output("dw", {c.out, c.in}, run->dw, kBound);
    exchange_.output("db", {c.out}, run->db, kBound);
  }

  void average_pool(const MapCase& c) {
    const size_t pixels = product({c.h, c.w});
    const auto channels = static_cast<size_t>(c.channels);
    const Values x = random_values(product({c.batch, c.h, c.w, c.channels}), 1);
    const Values dy = random_values(product({c.batch, c.channels}), 2);
    Values y(dy.size());
    Values dx(x.size());
    model::average_pool_forward(x.data(), c.batch, pixels, channels, y.data());
    model::average_pool_backward(dy.data(), c.batch, pixels, channels, dx.data());
    exchange_.begin("average_pool", fmt::format("{}x{}x{}:n{}", c.h, c.w, c.channels, c.batch));
    exchange_.input("x", {c.batch, c.h, c.w, c.channels}, x);
    exchange_.input("dy", {c.batch, c.channels}, dy);
    exchange_.output("y", {c.batch, c.channels}, y, kBound);
    exchange_.output("dx", {c.batch, c.h, c.w, c.channels}, dx, kBound);
  }

  void option_a(const OptionACase& c) {
    const model::OptionA& g = c.shape;
    const Exchange::Shape x_shape{c.batch, g.in_h, g.in_w, g.in_c};
    const Exchange::Shape y_shape{c.batch, g.out_h, g.out_w, g.out_c};
    const Values x = random_values(product(x_shape), 1);
    const Values dy = random_values(product(y_shape), 2);
    Values y(dy.size(), 7);
    Values dx(x.size());
    model::option_a_forward(g, x.data(), c.batch, y.data());
    model::option_a_backward(g, dy.data(), c.batch, dx.data());
    exchange_.begin("option_a",
                    fmt::format("{}x{}:{}->{}:n{}", g.in_h, g.in_w, g.in_c, g.out_c, c.batch));
    exchange_.input("x", x_shape, x);
    exchange_.input("dy", y_shape, dy);
    exchange_.output("y", y_shape, y, 0);
    exchange_.output("dx", x_shape, dx, 0);
  }

  void small_layers(const Shapes& shapes) {
    for (const MapCase& c : shapes.max_pools) max_pool(c);
    for (const MapCase& c : shapes.average_pools) average_pool(c);
    for (const LinearCase& c : shapes.linears) linear(c);
    for (const OptionACase& c : shapes.option_as) option_a(c);
  }

  void cross_entropy(int batch, int classes, float smoothing) {
    const Values z = random_values(product({batch, classes}), 1, -4, 4);
    std::vector<int32_t> labels;
    Values as_floats;
    for (const float v : random_values(static_cast<size_t>(batch), 2, 0, 1)) {
      labels.push_back(static_cast<int32_t>(v * static_cast<float>(classes)));
      as_floats.push_back(static_cast<float>(labels.back()));
    }
    Values gradient(z.size());
    const auto loss = model::softmax_cross_entropy(z, labels, classes, smoothing,
                                                   1.0F / static_cast<float>(batch), gradient);
    ASSERT_TRUE(loss) << loss.error().message;
    const Values mean{static_cast<float>(loss->loss_sum / batch)};
    const Values hits{static_cast<float>(loss->top1), static_cast<float>(loss->top5)};
    exchange_.begin("cross_entropy", fmt::format("{}x{}:e{}", batch, classes, smoothing),
                    {{"smoothing", static_cast<double>(smoothing)}});
    exchange_.input("z", {batch, classes}, z);
    exchange_.input("labels", {batch}, as_floats);
    exchange_.output("loss", {1}, mean, 1e-6);
    exchange_.output("hits", {2}, hits, 0);
    exchange_.output("dz", {batch, classes}, gradient, 1e-6);
  }

  /// Five steps, the rate a tenth from the fourth on: there the two forms of momentum part.
  void sgd(model::SgdParams params, bool decays) {
    constexpr size_t kCount = 1003;
    constexpr int kSteps = 5;
    const bool tf = params.form == model::MomentumForm::kTf;
    exchange_.begin("sgd", fmt::format("nesterov{}:tf{}:decays{}", params.nesterov, tf, decays),
                    {{"lr", static_cast<double>(params.lr)},
                     {"momentum", static_cast<double>(params.momentum)},
                     {"decay", decays ? static_cast<double>(params.weight_decay) : 0.0},
                     {"nesterov", params.nesterov ? 1 : 0},
                     {"tf", tf ? 1 : 0}});
    Values p = random_values(kCount, 1);
    Values v(kCount, 0);
    const Values gradients = random_values(kSteps * kCount, 2);
    exchange_.input("p", {kCount}, p);
    exchange_.input("gradients", {kSteps, kCount}, gradients);
    Values scaled(kCount);
    for (size_t step = 0; step < kSteps; ++step) {
      if (step == 3) params.lr *= 0.1F;
      for (size_t i = 0; i < kCount; ++i) scaled[i] = 1024 * gradients[step * kCount + i];
      params.gradient_scale = 1.0F / 1024;
      model::sgd_update(p, v, scaled, params, decays);
    }
    exchange_.output("p", {kCount}, p, 1e-6);
    // Without momentum PyTorch keeps no buffer.
    if (params.momentum > 0) exchange_.output("v", {kCount}, v, 1e-6);
  }
};

TEST_F(LayersParity, ConvolutionsOfSmallNetworksMatchTorch) {
  for (const ConvolutionCase& c : shapes_of(kSmallNetworks).convolutions) convolution(c);
  judge();
}

TEST_F(LayersParity, ConvolutionsOfImagenetNetworksMatchTorch) {
  for (const ConvolutionCase& c : shapes_of(kImagenetNetworks).convolutions) convolution(c);
  judge();
}

// Channels that fill no vector, maps of one pixel, one image, wide and high maps.
TEST_F(LayersParity, OddConvolutionsMatchTorch) {
  for (const int kernel : {1, 3, 7}) {
    for (const int stride : {1, 2}) {
      for (const auto& [h, w] : {std::pair{1, 1}, {9, 4}, {5, 16}}) {
        convolution({{1, h, w, 3, 5, kernel, stride}, true});
        convolution({{2, h, w, 24, 17, kernel, stride}, true});
        convolution({{3, h, w, 17, 24, kernel, stride}, false});
        convolution({{1, h, w, 16, 48, kernel, stride}, true});
      }
    }
  }
  judge();
}

TEST_F(LayersParity, PoolingLinearAndShortcutLayersMatchTorch) {
  small_layers(shapes_of(kSmallNetworks));
  small_layers(shapes_of(kImagenetNetworks));
  for (const auto& [h, w] : {std::pair{1, 1}, {7, 4}, {2, 9}}) {
    for (const int channels : {3, 5, 17, 24}) {
      max_pool({1, h, w, channels});
      average_pool({2, h, w, channels});
      const int side = channels / 2;
      option_a({2, {h, w, channels, (h - 1) / 2 + 1, (w - 1) / 2 + 1, channels + 2 * side}});
      linear({h, channels, w});
    }
  }
  judge();
}

TEST_F(LayersParity, SgdMatchesTorch) {
  for (const bool decays : {true, false}) {
    sgd({.weight_decay = 1e-2F}, decays);
    sgd({.weight_decay = 1e-2F, .nesterov = true}, decays);
    sgd({.momentum = 0, .weight_decay = 1e-2F}, decays);
    sgd({.weight_decay = 1e-2F, .form = model::MomentumForm::kTf}, decays);
  }
  judge();
}

TEST_F(LayersParity, CrossEntropyMatchesTorch) {
  for (const float smoothing : {0.0F, 0.1F}) {
    cross_entropy(32, 10, smoothing);
    cross_entropy(8, 1000, smoothing);
    cross_entropy(5, 7, smoothing);
    cross_entropy(1, 1001, smoothing);
    cross_entropy(3, 5, smoothing);
  }
  judge();
}

}  // namespace
}  // namespace npu::parity
