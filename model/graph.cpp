// From the architecture's name to shapes: the only place that knows how a ResNet is put together.
#include "model/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::model {
namespace {

/// Bytes of input and output that a chunk may hold, so that what one convolution writes is still in
/// cache when the next pass reads it. 1 to 2 MiB measured best on 1 MiB of L2 a core and 32 MiB of
/// shared L3; 8 MiB and more cost up to 9 % (docs/design/004-model-execution.md).
constexpr uint64_t kChunkBytes = uint64_t{2} << 20;
constexpr int kMaxEvalChunk = 32;
/// A layer of 64 channels then has 2^32 values an image, more than any device here can hold.
constexpr int kMaxSide = 8192;

Result<void> check_config(const NetworkConfig& c) {
  const auto positive = [](const char* what, int64_t value) -> Result<void> {
    if (value >= 1) return {};
    return fail(Code::kInvalidArgument, "model: {} is {}; expected at least 1", what, value);
  };
  const auto side = [](const char* what, int value) -> Result<void> {
    if (value >= 1 && value <= kMaxSide) return {};
    return fail(Code::kInvalidArgument, "model: image {} is {} pixels; expected 1 to {}", what,
                value, kMaxSide);
  };
  NPU_TRY_VOID(positive("num_classes", c.num_classes));
  NPU_TRY_VOID(side("height", c.height));
  NPU_TRY_VOID(side("width", c.width));
  NPU_TRY_VOID(positive("batch size of a rank", c.batch));
  NPU_TRY_VOID(positive("threads", c.threads));
  if (c.channels != 1 && c.channels != 3) {
    return fail(Code::kInvalidArgument, "model: images have {} channels; expected 1 or 3",
                c.channels);
  }
  if (c.eval_batch < 0) {
    return fail(Code::kInvalidArgument,
                "model: eval_batch is {}; expected 0 (same as batch) or more", c.eval_batch);
  }
  if (!(c.label_smoothing >= 0 && c.label_smoothing < 1)) {
    return fail(Code::kInvalidArgument, "model: label_smoothing is {}; expected 0 <= value < 1",
                c.label_smoothing);
  }
  if (c.dtype != DType::kFloat32 && c.dtype != DType::kFloat16 && c.dtype != DType::kBFloat16) {
    return fail(Code::kInvalidArgument,
                "model: activations in {} are not possible; use fp32, fp16 or bf16",
                dtype_name(c.dtype));
  }
  return {};
}

/// The largest divisor of `batch` whose chunk fits; large weights allow more, since each chunk
/// costs one pass over the weight gradient.
int choose_chunk(int batch, const ConvBn& unit) {
  const uint64_t image_bytes = (unit.in_image() + unit.out_image()) * sizeof(float);
  const auto taps =
      static_cast<uint64_t>(unit.shape.kernel) * static_cast<uint64_t>(unit.shape.kernel);
  const uint64_t weight_bytes = taps * static_cast<uint64_t>(unit.shape.in_c) *
                                static_cast<uint64_t>(unit.shape.out_c) * sizeof(float);
  const uint64_t limit = std::max(kChunkBytes, 2 * weight_bytes);
  int best = 1;
  for (int m = 1; m <= batch; ++m) {
    if (batch % m == 0 && static_cast<uint64_t>(m) * image_bytes <= limit) best = m;
  }
  return best;
}

ConvBn make_unit(std::string conv_name, std::string bn_name, const ConvShape& shape, int batch) {
  ConvBn unit;
  unit.conv_name = std::move(conv_name);
  unit.bn_name = std::move(bn_name);
  unit.shape = shape;
  unit.shape.batch = choose_chunk(batch, unit);
  unit.bn.channels = static_cast<size_t>(shape.out_c);
  unit.bn.width = virtual_width(unit.bn.channels);
  return unit;
}

struct MapShape {
  int h;
  int w;
  int c;
};

ConvShape conv_shape(const MapShape& in, int out_c, int kernel, int stride) {
  return {.batch = 1,
          .in_h = in.h,
          .in_w = in.w,
          .in_c = in.c,
          .out_c = out_c,
          .kernel = kernel,
          .stride = stride};
}

MapShape out_of(const ConvBn& unit) {
  return {unit.shape.out_h(), unit.shape.out_w(), unit.shape.out_c};
}

Block make_block(const Arch& arch, std::string name, const MapShape& in, int width, int stride,
                 int batch) {
  Block block;
  block.name = std::move(name);
  const int out_c = width * arch.expansion();
  MapShape at = in;
  const auto append = [&](int channels, int kernel, int unit_stride) {
    const size_t number = block.units.size() + 1;
    block.units.push_back(make_unit(fmt::format("{}.conv{}", block.name, number),
                                    fmt::format("{}.bn{}", block.name, number),
                                    conv_shape(at, channels, kernel, unit_stride), batch));
    at = out_of(block.units.back());
  };
  if (arch.bottleneck) {
    append(width, 1, 1);
    append(width, 3, stride);
    append(out_c, 1, 1);
  } else {
    append(width, 3, stride);
    append(out_c, 3, 1);
  }
  if (stride == 1 && in.c == out_c) return block;
  if (arch.shortcut == Shortcut::kOptionA) {
    block.option_a = OptionA{in.h, in.w, in.c, at.h, at.w, at.c};
    return block;
  }
  block.projection = make_unit(block.name + ".downsample.0", block.name + ".downsample.1",
                               conv_shape(in, out_c, 1, stride), batch);
  // Both read the same chunk of the block's input.
  const int shared = std::min(block.projection->shape.batch, block.units.front().shape.batch);
  block.projection->shape.batch = shared;
  block.units.front().shape.batch = shared;
  return block;
}

/// A joint that is not kept is made from what is: its block's outputs and a projection, or the
/// joint before if that one is kept.
void choose_joints(Graph& graph) {
  graph.joints.resize(graph.blocks.size() + 1);
  graph.joints[0] = {.image = graph.first_input_image(), .kept = graph.pooled};
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    const Block& block = graph.blocks[b];
    graph.joints[b + 1] = {.image = block.out_image(),
                           .kept = !block.projection && !graph.joints[b].kept};
  }
}

int choose_eval_chunk(Graph& graph, int eval_batch) {
  uint64_t most = 1;
  graph.each_unit([&](const ConvBn& unit) {
    most = std::max<uint64_t>(most, (unit.in_image() + unit.out_image()) * sizeof(float));
  });
  const uint64_t fit = std::max<uint64_t>(1, 8 * kChunkBytes / most);
  return static_cast<int>(
      std::min<uint64_t>({fit, static_cast<uint64_t>(eval_batch), kMaxEvalChunk}));
}

/// Batch norm in training needs two values a channel at least.
Result<void> check_values_per_channel(Graph& graph, int batch) {
  const ConvBn* bad = nullptr;
  graph.each_unit([&](const ConvBn& unit) {
    if (bad == nullptr && unit.out_pixels() * static_cast<size_t>(batch) == 1) bad = &unit;
  });
  if (bad == nullptr) return {};
  return fail(
      Code::kInvalidArgument,
      "model: {} sees one value per channel (batch {}, map {}x{}), which batch norm cannot train "
      "on; use a batch of 2 or more, or larger images",
      bad->bn_name, batch, bad->shape.out_h(), bad->shape.out_w());
}

}  // namespace

Result<Graph> build_graph(const NetworkConfig& config) {
  NPU_TRY_VOID(check_config(config));
  Graph graph;
  NPU_TRY(graph.arch, find_arch(config.arch));
  const Arch& arch = graph.arch;
  const bool imagenet = arch.stem == Stem::kImagenet;
  const MapShape image{config.height, config.width, config.channels};
  graph.stem = make_unit("conv1", "bn1",
                         conv_shape(image, arch.first_width, imagenet ? 7 : 3, imagenet ? 2 : 1),
                         config.batch);
  MapShape at = out_of(graph.stem);
  graph.pooled = imagenet;
  if (imagenet) {
    at.h = (at.h - 1) / 2 + 1;
    at.w = (at.w - 1) / 2 + 1;
    graph.pool_h = at.h;
    graph.pool_w = at.w;
  }
  for (size_t stage = 0; stage < arch.blocks.size(); ++stage) {
    const int width = arch.first_width << stage;
    for (int i = 0; i < arch.blocks[stage]; ++i) {
      const int stride = stage > 0 && i == 0 ? 2 : 1;
      graph.blocks.push_back(make_block(arch, fmt::format("layer{}.{}", stage + 1, i), at, width,
                                        stride, config.batch));
      at = out_of(graph.blocks.back().last());
    }
  }
  choose_joints(graph);
  graph.features = at.c;
  graph.feature_pixels = static_cast<size_t>(at.h) * static_cast<size_t>(at.w);
  graph.eval_chunk =
      choose_eval_chunk(graph, config.eval_batch == 0 ? config.batch : config.eval_batch);
  if (config.training) NPU_TRY_VOID(check_values_per_channel(graph, config.batch));
  return graph;
}

}  // namespace npu::model
