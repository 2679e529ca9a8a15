// Whole networks against PyTorch: the first step (loss, every gradient, running statistics,
// evaluation) in fp32 and with half activations, gradients against numeric ones, and loss curves
// from our own initial weights.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "layers.hpp"
#include "model/network.hpp"
#include "torch_parity.hpp"

namespace npu::parity {
namespace {

/// How parameters are drawn. With `kFewFlips` nearly every value in front of a ReLU is far from
/// zero, most of them above and a quarter of the channels below: a half's rounding then moves none
/// across, so what is compared is arithmetic and not the chaos of single ReLUs (which alone moves
/// gradients by several per cent).
enum class Draw { kPlain, kFewFlips };

float amplitude(const model::StateEntry& entry, Draw draw) {
  if (entry.shape.size() == 4) {
    return std::sqrt(6.0F / static_cast<float>(entry.shape[0] * entry.shape[2] * entry.shape[3]));
  }
  if (entry.shape.size() == 2) {
    return (draw == Draw::kPlain ? 1.0F : 0.1F) / std::sqrt(static_cast<float>(entry.shape[1]));
  }
  return draw == Draw::kPlain ? 0.5F : 0.1F;
}

void fill(model::Network& network, Draw draw) {
  const auto state = network.state();
  for (size_t i = 0; i < state.size(); ++i) {
    const model::StateEntry& entry = state[i];
    if (entry.kind != model::StateKind::kParameter) continue;
    const float most = amplitude(entry, draw);
    Values values = random_values(entry.count, static_cast<uint32_t>(i) + 50, -most, most);
    const bool norm = entry.shape.size() == 1 && !entry.name.starts_with("fc");
    for (size_t c = 0; norm && c < values.size(); ++c) {
      if (entry.name.ends_with("weight")) {
        values[c] += 1;
      } else if (draw == Draw::kFewFlips) {
        values[c] += c % 4 == 3 ? -4.0F : 4.0F;
      }
    }
    network.import_state(i, values);
  }
}

/// A bound network with images and labels.
struct Rig {
  Rig(const model::NetworkConfig& config, size_t batches) {
    auto planned = model::Network::plan(config);
    EXPECT_TRUE(planned) << planned.error().message;
    network = std::make_unique<model::Network>(std::move(*planned));
    EXPECT_TRUE(network->bind(heap));
    network->initialise(1);
    const auto n = static_cast<size_t>(config.batch);
    image_values = n * static_cast<size_t>(config.height * config.width * config.channels);
    images = random_values(batches * image_values, 1);
    for (const float v : random_values(batches * n, 2, 0, 1)) {
      labels.push_back(static_cast<int32_t>(v * static_cast<float>(config.num_classes)));
    }
  }

  [[nodiscard]] std::span<const float> batch_images(size_t i) const {
    return std::span(images).subspan(i * image_values, image_values);
  }
  [[nodiscard]] std::span<const int32_t> batch_labels(size_t i) const {
    const auto n = static_cast<size_t>(network->config().batch);
    return std::span(labels).subspan(i * n, n);
  }

  model::HeapAllocator heap;
  std::unique_ptr<model::Network> network;
  size_t image_values = 0;
  Values images;
  std::vector<int32_t> labels;
};

/// Largest differences allowed, relative to each tensor's largest magnitude.
struct Bounds {
  double loss = 1e-6;
  double gradient = 1e-5;
  double buffer = 1e-5;
  double logits = 1e-5;
};

class NetworkParity : public TorchParity {
 protected:
  NetworkParity() : TorchParity("network.py") {}

  static std::string name_of(const model::NetworkConfig& c) {
    return fmt::format("{}:{}x{}x{}:n{}:{}", c.arch, c.height, c.width, c.channels, c.batch,
                       dtype_name(c.dtype));
  }

  /// What every case has: settings, images, labels and the state before the first step.
  void begin(const std::string& kind, const Rig& rig, Exchange::Settings settings) {
    const model::NetworkConfig& c = rig.network->config();
    exchange_.begin(kind, name_of(c), settings);
    const auto batches = static_cast<int64_t>(rig.images.size() / rig.image_values);
    exchange_.input("images", {batches, c.batch, c.height, c.width, c.channels}, rig.images);
    exchange_.input("labels", {batches, c.batch}, Values(rig.labels.begin(), rig.labels.end()));
    each_state(rig, [&](size_t i, const model::StateEntry& entry) {
      Values values(entry.count);
      rig.network->export_state(i, values);
      exchange_.input("state:" + entry.name, entry.shape, values);
    });
  }

  template <typename Body>
  static void each_state(const Rig& rig, const Body& body) {
    const auto state = rig.network->state();
    for (size_t i = 0; i < state.size(); ++i) {
      if (state[i].kind != model::StateKind::kBatchesTracked) body(i, state[i]);
    }
  }

  void first_step(const model::NetworkConfig& config, Draw draw, const Bounds& bounds,
                  float scale = 1, int numeric = 0) {
    Rig rig(config, 1);
    fill(*rig.network, draw);
    const double half = config.dtype == DType::kFloat32   ? 0
                        : config.dtype == DType::kFloat16 ? 1
                                                          : 2;
    begin("first_step", rig,
          {{"smoothing", static_cast<double>(config.label_smoothing)},
           {"scale", static_cast<double>(scale)},
           {"half", half},
           {"numeric", numeric}});
    const auto loss = rig.network->forward_train(rig.images, rig.labels);
    ASSERT_TRUE(loss) << loss.error().message;
    ASSERT_TRUE(rig.network->backward({}, scale));
    const Values mean{static_cast<float>(loss->loss_sum / config.batch)};
    exchange_.output("loss", {1}, mean, bounds.loss);
    each_state(rig, [&](size_t i, const model::StateEntry& entry) {
      Values values(entry.count);
      if (entry.kind == model::StateKind::kParameter) {
        rig.network->export_gradient(i, values);
        exchange_.output("gradient:" + entry.name, entry.shape, values, bounds.gradient);
      } else {
        rig.network->export_state(i, values);
        exchange_.output("buffer:" + entry.name, entry.shape, values, bounds.buffer);
      }
    });
    if (config.dtype != DType::kFloat32) return;  // evaluation is fp32 whatever the dtype
    const auto logits = rig.network->forward_eval(rig.images, config.batch);
    ASSERT_TRUE(logits) << logits.error().message;
    exchange_.output("logits", {config.batch, config.num_classes}, *logits, bounds.logits);
  }

  /// `steps` losses from the weights of initialise(), batches taken in turn.
  void curve(const model::NetworkConfig& config, const model::SgdParams& sgd, int steps,
             double bound) {
    constexpr size_t kBatches = 4;
    Rig rig(config, kBatches);
    begin("curve", rig,
          {{"lr", static_cast<double>(sgd.lr)},
           {"momentum", static_cast<double>(sgd.momentum)},
           {"decay", static_cast<double>(sgd.weight_decay)},
           {"nesterov", sgd.nesterov ? 1 : 0}});
    Values losses;
    for (size_t step = 0; step < static_cast<size_t>(steps); ++step) {
      const size_t at = step % kBatches;
      const auto loss = rig.network->forward_train(rig.batch_images(at), rig.batch_labels(at));
      ASSERT_TRUE(loss) << loss.error().message;
      ASSERT_TRUE(rig.network->backward({}));
      for (size_t i = 0; i < rig.network->bucket_count(); ++i) rig.network->sgd_step(i, sgd);
      losses.push_back(static_cast<float>(loss->loss_sum / config.batch));
    }
    exchange_.output("losses", {steps}, losses, bound);
  }
};

model::NetworkConfig tiny(const char* arch, int side, int batch) {
  return {.arch = arch, .num_classes = 10, .height = side, .width = side, .batch = batch};
}

TEST_F(NetworkParity, GradientsMatchNumericOnesAndAutograd) {
  first_step(tiny("resnet8", 8, 6), Draw::kPlain, {}, 1, 3);
  model::NetworkConfig odd = tiny("resnet8", 9, 5);
  odd.width = 13;
  odd.channels = 1;
  odd.num_classes = 7;
  odd.label_smoothing = 0.1F;
  first_step(odd, Draw::kPlain, {}, 64, 3);
  judge();
}

// PyTorch's own fp32 gradients are up to 5e-5 from its fp64 ones here.
TEST_F(NetworkParity, FirstStepOfEachFamilyMatchesTorchInFp64) {
  const Bounds bounds{.loss = 1e-6, .gradient = 1.5e-4, .buffer = 3e-5, .logits = 2e-5};
  first_step(tiny("resnet20", 16, 4), Draw::kFewFlips, bounds);
  first_step(tiny("resnet18", 48, 2), Draw::kFewFlips, bounds);
  first_step(tiny("resnet18-32", 16, 2), Draw::kFewFlips, bounds);
  first_step(tiny("resnet50-32", 16, 2), Draw::kFewFlips, bounds);
  judge();
}

// Found: loss 9.5e-5, gradients 5e-3 (resnet8) to 3.8e-2 (layer4 of the others, 16 values a
// channel). network.py bounds the size of all differences together much closer.
TEST_F(NetworkParity, Fp16StepMatchesTheRoundedReference) {
  const auto run = [&](const char* arch, int side, const Bounds& bounds) {
    model::NetworkConfig config = tiny(arch, side, 4);
    config.dtype = DType::kFloat16;
    first_step(config, Draw::kFewFlips, bounds, 1024);
  };
  run("resnet8", 16, {.loss = 3e-4, .gradient = 1.5e-2, .buffer = 2e-4});
  run("resnet18", 48, {.loss = 3e-4, .gradient = 0.1, .buffer = 2e-3});
  run("resnet50-32", 16, {.loss = 3e-4, .gradient = 0.1, .buffer = 2e-2});
  judge();
}

TEST_F(NetworkParity, Bf16StepMatchesTheRoundedReference) {
  const auto run = [&](const char* arch, int side, const Bounds& bounds) {
    model::NetworkConfig config = tiny(arch, side, 4);
    config.dtype = DType::kBFloat16;
    first_step(config, Draw::kFewFlips, bounds);
  };
  run("resnet8", 16, {.loss = 2e-3, .gradient = 8e-2, .buffer = 2e-3});
  run("resnet18", 48, {.loss = 2e-3, .gradient = 0.5, .buffer = 2e-2});
  run("resnet50-32", 16, {.loss = 2e-3, .gradient = 0.8, .buffer = 8e-2});
  judge();
}

// Fresh weights amplify: at ten times these rates fp32 losses of one program and another part by
// 1e-3 to 1e-2 within twenty steps, at these the losses still fall visibly. tests/golden has curves
// at ordinary rates, from weights that are better conditioned.
TEST_F(NetworkParity, TwentyLossesOfResnet20MatchTorch) {
  curve(tiny("resnet20", 32, 16), {.lr = 0.0005F}, 20, 1e-4);
  judge();
}

TEST_F(NetworkParity, TwentyLossesOfResnet18MatchTorch) {
  curve(tiny("resnet18", 64, 8), {.lr = 0.00001F, .nesterov = true}, 20, 1e-4);
  judge();
}

}  // namespace
}  // namespace npu::parity
