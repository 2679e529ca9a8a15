// Memory of a network: the same carving counts bytes at plan time and hands out pointers at bind
// time.
#include <algorithm>

#include "model/lifetimes.hpp"
#include "model/network_impl.hpp"
#include "model/primitives/weight_gemm.hpp"

namespace npu::model {
namespace {

/// Floats of the scratch buffers of one chunk.
struct ChunkSizes {
  size_t input = 0;
  size_t residual = 0;
  size_t shortcut = 0;
  size_t dy = 0;
  size_t dx = 0;
  size_t dx2 = 0;
};

void most(size_t& slot, size_t value) { slot = std::max(slot, value); }

size_t chunk_of(const ConvBn& unit) { return static_cast<size_t>(unit.shape.batch); }

/// Images in which a joint is made and its gradient joined.
size_t joint_chunk(const Graph& graph, size_t joint) {
  return joint < graph.blocks.size() ? chunk_of(graph.blocks[joint].units.front()) : 1;
}

void add_joint(const Graph& graph, size_t j, bool fp32, ChunkSizes& sizes) {
  const Joint& joint = graph.joints[j];
  const size_t chunk = joint_chunk(graph, j);
  most(sizes.input, chunk * joint.image);
  most(sizes.dx, chunk * joint.image);
  if (j == 0) return;
  const Block& block = graph.blocks[j - 1];
  const Joint& before = graph.joints[j - 1];
  if (block.projection) return;
  // A joint that is not kept is made again in the chunks of the next one, too.
  const size_t largest =
      std::max(chunk, j < graph.blocks.size() ? joint_chunk(graph, j + 1) : size_t{0});
  if (!before.kept || (block.option_a && !fp32)) most(sizes.residual, largest * before.image);
  if (!joint.kept) most(sizes.residual, largest * joint.image);
  if (block.option_a) {
    most(sizes.shortcut, std::max(largest, joint_chunk(graph, j - 1)) * joint.image);
  }
}

void add_block(const Block& block, bool fp32, ChunkSizes& sizes) {
  for (size_t u = 0; u < block.units.size(); ++u) {
    const ConvBn& unit = block.units[u];
    most(sizes.dy, chunk_of(unit) * unit.out_image());
    if (u == 0) continue;
    most(sizes.input, chunk_of(unit) * unit.in_image());
    if (!fp32) most(sizes.dx, chunk_of(unit) * unit.in_image());
  }
  if (!block.projection) return;
  most(sizes.dy, chunk_of(*block.projection) * block.projection->out_image());
  most(sizes.dx2, chunk_of(*block.projection) * block.in_image());
}

ChunkSizes chunk_sizes(const Graph& graph, bool fp32) {
  ChunkSizes sizes;
  most(sizes.dy, chunk_of(graph.stem) * graph.stem_image());
  if (!fp32) most(sizes.input, chunk_of(graph.stem) * graph.stem.in_image());
  for (const Block& block : graph.blocks) {
    add_block(block, fp32, sizes);
  }
  for (size_t j = 0; j < graph.joints.size(); ++j) {
    add_joint(graph, j, fp32, sizes);
  }
  return sizes;
}

/// Points in time of one step, for the lifetimes of tensors.
struct Times {
  int blocks;
  [[nodiscard]] int forward(size_t block) const { return static_cast<int>(block) + 1; }
  [[nodiscard]] int backward(size_t block) const {
    return 2 * blocks + 2 - static_cast<int>(block);
  }
  [[nodiscard]] int backward_stem() const { return 2 * blocks + 3; }
};

}  // namespace

size_t Network::Impl::max_bn_width() {
  size_t width = 0;
  graph.each_unit([&](const ConvBn& unit) { width = std::max(width, unit.bn.width); });
  return width;
}

int Network::Impl::eval_batch() const noexcept {
  return config.eval_batch == 0 ? config.batch : config.eval_batch;
}

/// Tensors of whole batches. Time runs from the stem through blocks and head and back; a joint
/// belongs to the block that reads it, the last one to the head.
uint64_t Network::Impl::place_tensors(std::byte* base) {
  const auto n = static_cast<uint64_t>(config.batch);
  const uint64_t element = format_bytes(passes.format());
  const size_t blocks = graph.blocks.size();
  const Times time{static_cast<int>(blocks)};
  Lifetimes plan_of_tensors;
  std::vector<std::pair<Stored*, size_t>> placed;
  const auto add = [&](Stored& tensor, uint64_t image, int first, int last) {
    placed.emplace_back(&tensor, plan_of_tensors.add(n * image * element, first, last));
  };
  add(graph.stem.y, graph.stem.out_image(), 0, time.backward_stem());
  for (size_t b = 0; b < blocks; ++b) {
    Block& block = graph.blocks[b];
    const int made = time.forward(b);
    const int last = time.backward(b);
    for (ConvBn& unit : block.units) {
      add(unit.y, unit.out_image(), made, last);
    }
    if (block.projection) add(block.projection->y, block.projection->out_image(), made, last);
    uint64_t inner[2] = {};
    for (size_t u = block.units.size() - 1, slot = 0; u > 0; --u, slot ^= 1) {
      inner[slot] = std::max<uint64_t>(inner[slot], block.units[u].in_image());
    }
    add(block.inner_gradient[0], inner[0], last, last);
    add(block.inner_gradient[1], inner[1], last, last);
  }
  for (size_t j = 0; j <= blocks; ++j) {
    Joint& joint = graph.joints[j];
    if (joint.kept) add(joint.z, joint.image, time.forward(j), time.backward(j));
  }
  for (size_t j = 0; j <= blocks; ++j) {
    // Identity blocks in a row share one gradient.
    const size_t first = j;
    while (j < blocks && graph.blocks[j].is_identity()) ++j;
    add(graph.joints[first].gradient, graph.joints[first].image, time.backward(j),
        first == 0 ? time.backward_stem() : time.backward(first - 1));
    for (size_t same = first + 1; same <= j; ++same) {
      placed.emplace_back(&graph.joints[same].gradient, placed.back().second);
    }
  }
  Stored workspace;
  if (graph.pooled) {
    // In bytes; `add` counts elements.
    add(workspace, (graph.train_pool->workspace_bytes() + element - 1) / element, time.forward(0),
        time.backward_stem());
  }
  plan_of_tensors.place();
  if (base != nullptr) {
    for (const auto& [tensor, id] : placed) {
      *tensor = {base + plan_of_tensors.offset(id), element};
    }
    train.pool_workspace = workspace.data;
  }
  return plan_of_tensors.total_bytes();
}

void Network::Impl::carve_scratch(Carver& carver) {
  const auto n = static_cast<size_t>(config.batch);
  const ChunkSizes sizes = chunk_sizes(graph, is_fp32());
  const auto features = static_cast<size_t>(graph.features);
  const auto classes = static_cast<size_t>(config.num_classes);
  train.features = carver.take<float>(n * features);
  train.feature_gradient = carver.take<float>(n * features);
  train.logits = carver.take<float>(n * classes);
  train.logit_gradient = carver.take<float>(n * classes);
  train.input_chunk = carver.take<float>(sizes.input);
  train.residual_chunk = carver.take<float>(sizes.residual);
  train.shortcut_chunk = carver.take<float>(sizes.shortcut);
  train.dy_chunk = carver.take<float>(sizes.dy);
  train.dx_chunk = carver.take<float>(sizes.dx);
  train.dx2_chunk = carver.take<float>(sizes.dx2);
  if (!has_bf16_operands()) return;
  const auto half_chunk = [&](size_t elements) {
    return Stored{reinterpret_cast<std::byte*>(carver.take<uint16_t>(elements)), sizeof(uint16_t)};
  };
  train.input_operand = half_chunk(sizes.input);
  train.dy_operand = half_chunk(sizes.dy);
}

void Network::Impl::carve_eval(Carver& carver) {
  const auto m = static_cast<size_t>(graph.eval_chunk);
  const size_t chunks = (static_cast<size_t>(eval_batch()) + m - 1) / m;
  size_t map = graph.first_input_image();
  graph.each_unit([&](const ConvBn& unit) { map = std::max(map, unit.out_image()); });
  eval.images = carver.take<float>(m * graph.stem.in_image());
  for (float*& slot : eval.map) {
    slot = carver.take<float>(m * map);
  }
  eval.features = carver.take<float>(m * static_cast<size_t>(graph.features));
  eval.logits = carver.take<float>(chunks * m * static_cast<size_t>(config.num_classes));
}

uint64_t Network::Impl::carve_activations(std::byte* base) {
  uint64_t used = 0;
  if (config.training) {
    const uint64_t tensors = place_tensors(base);
    Carver carver(base == nullptr ? nullptr : base + tensors);
    carve_scratch(carver);
    used = tensors + carver.used_bytes();
  }
  // Evaluation ends a pending step, so the two never live at the same time.
  Carver carver(base);
  carve_eval(carver);
  return std::max(used, carver.used_bytes());
}

namespace {

/// A layer's weights in another layout, or rounded.
uint64_t train_copy_bytes(const Convolution& conv, bool fp32) {
  if (fp32) return conv.backward_weights_bytes();
  return std::max(
      {conv.forward_weights_bytes(), conv.backward_weights_bytes(), conv.weights_bytes()});
}

/// What a weight gradient needs beside its place in the bucket.
uint64_t partial_gradient_bytes(const ConvBn& unit, int batch) {
  if (const WeightGemm* gemm = unit.train->weight_gemm()) return gemm->gradient_bytes();
  return unit.shape.batch < batch ? unit.train->weights_bytes() : 0;
}

}  // namespace

uint64_t Network::Impl::carve_workspace(std::byte* base) {
  Carver carver(base);
  uint64_t scratch = graph.eval_fc->scratch_bytes();
  uint64_t copy = graph.eval_fc->copy_bytes();
  uint64_t chunk_gradient = 0;
  uint64_t patches = 0;
  uint64_t plain = 0;
  for (const MaxPool* pool : {graph.train_pool.get(), graph.eval_pool.get()}) {
    if (pool != nullptr) most(scratch, pool->scratch_bytes());
  }
  if (graph.train_fc) {
    most(scratch, graph.train_fc->scratch_bytes());
    most(copy, graph.train_fc->copy_bytes());
  }
  graph.each_unit([&](ConvBn& unit) {
    uint64_t forward = unit.eval->forward_weights_bytes();
    most(scratch, unit.eval->scratch_bytes());
    if (unit.train) {
      most(scratch, unit.train->scratch_bytes());
      most(copy, train_copy_bytes(*unit.train, is_fp32()));
      // With a half format the training kernel reads a copy that is made right before use.
      if (is_fp32()) most(forward, unit.train->forward_weights_bytes());
      most(chunk_gradient, partial_gradient_bytes(unit, config.batch));
      if (unit.train->weight_gemm()) most(patches, unit.train->weight_gemm()->patch_bytes());
    }
    unit.forward_weights = forward == 0 ? nullptr : carver.take<float>(forward / sizeof(float));
    float* vectors = carver.take<float>(BatchNorm::kWideVectors * unit.bn.width);
    double* sums = carver.take<double>(BatchNorm::kDoubleVectors * unit.bn.channels);
    if (base == nullptr) return;
    for (float** slot :
         {&unit.bn.mean, &unit.bn.scale, &unit.bn.shift, &unit.bn.a, &unit.bn.b, &unit.bn.c}) {
      *slot = vectors;
      vectors += unit.bn.width;
    }
    unit.bn.sum = sums;
    unit.bn.square = sums + unit.bn.channels;
    unit.bn.inv_std = sums + 2 * unit.bn.channels;
  });
  for (const Parameter& parameter : parameters.all()) {
    most(plain, parameter.count);
  }
  work.scratch = carver.take<std::byte>(scratch);
  work.weights_copy = carver.take<float>(copy / sizeof(float));
  uint64_t side_copy = 0;
  uint64_t side_gradient = 0;
  for (const Block& block : graph.blocks) {
    if (block.projection && block.projection->train) {
      most(side_copy, train_copy_bytes(*block.projection->train, is_fp32()));
      most(side_gradient, partial_gradient_bytes(*block.projection, config.batch));
    }
  }
  work.side_weights_copy = carver.take<float>(side_copy / sizeof(float));
  work.weight_gradient = carver.take<float>(chunk_gradient / sizeof(float));
  work.side_weight_gradient = carver.take<float>(side_gradient / sizeof(float));
  work.patches = carver.take<float>(patches / sizeof(float));
  work.partial = carver.take<float>(Passes::partial_floats(config.threads, max_bn_width()));
  work.plain = carver.take<float>(plain);
  if (config.training && !is_fp32()) {
    work.fc_weights = carver.take<float>(graph.train_fc->weights_bytes() / sizeof(float));
  }
  return carver.used_bytes();
}

void Network::Impl::make_plan() {
  const uint64_t flat = parameters.flat_floats();
  plan.parameters = flat * sizeof(float);
  plan.bn_buffers = graph.buffer_floats * sizeof(float);
  if (config.training) {
    plan.gradients = (flat + ParameterTable::kMetricsFloats) * sizeof(float);
    plan.momentum = flat * sizeof(float);
  }
  plan.activations = carve_activations(nullptr);
  plan.workspace = carve_workspace(nullptr);
}

void Network::Impl::attach_layers() {
  graph.each_unit([&](ConvBn& unit) {
    const auto at = [&](float* memory, size_t index) {
      return memory == nullptr ? nullptr : memory + parameters[index].offset;
    };
    unit.weights = at(parameter_memory, unit.weight_index);
    unit.weight_gradient = at(gradient_memory, unit.weight_index);
    unit.bn.weight = at(parameter_memory, unit.bn_weight_index);
    unit.bn.bias = at(parameter_memory, unit.bn_bias_index);
    unit.bn.weight_gradient = at(gradient_memory, unit.bn_weight_index);
    unit.bn.bias_gradient = at(gradient_memory, unit.bn_bias_index);
    unit.bn.running_mean = buffer_memory + unit.buffer_offset;
    unit.bn.running_var = unit.bn.running_mean + unit.bn.channels;
  });
}

Result<void> Network::Impl::bind(Allocator& allocator) {
  if (bound) {
    return fail(Code::kFailedPrecondition, "bind a network that is bound; plan another one");
  }
  const auto take = [&](uint64_t bytes, Purpose purpose) -> Result<std::byte*> {
    if (bytes == 0) return nullptr;
    return allocator.allocate(bytes, Carver::kAlignment, purpose);
  };
  NPU_TRY(std::byte* const parameter, take(plan.parameters, Purpose::kParameters));
  NPU_TRY(std::byte* const gradient, take(plan.gradients, Purpose::kGradients));
  NPU_TRY(std::byte* const momentum, take(plan.momentum, Purpose::kMomentum));
  NPU_TRY(std::byte* const buffers, take(plan.bn_buffers, Purpose::kBnBuffers));
  NPU_TRY(std::byte* const activations, take(plan.activations, Purpose::kActivations));
  NPU_TRY(std::byte* const workspace, take(plan.workspace, Purpose::kWorkspace));
  parameter_memory = reinterpret_cast<float*>(parameter);
  gradient_memory = reinterpret_cast<float*>(gradient);
  momentum_memory = reinterpret_cast<float*>(momentum);
  buffer_memory = reinterpret_cast<float*>(buffers);
  NPU_CHECK(carve_activations(activations) == plan.activations);
  NPU_CHECK(carve_workspace(workspace) == plan.workspace);
  passes.bind(work.partial, max_bn_width());
  attach_layers();
  bound = true;
  return {};
}

}  // namespace npu::model
