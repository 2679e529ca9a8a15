// Memory of a network: the same carving counts bytes at plan time and hands out pointers at bind
// time.
#include <algorithm>

#include "model/network_impl.hpp"

namespace npu::model {
namespace {

struct TrainSizes {
  size_t block_out = 0;  // floats of the largest block output, one image
  size_t inner = 0;      // of the largest gradient inside a block, one image
  size_t input_chunk = 0;
  size_t dy_chunk = 0;
  size_t dx_chunk = 0;
  size_t dx2_chunk = 0;
};

size_t chunk_of(const ConvBn& unit) { return static_cast<size_t>(unit.shape.batch); }

TrainSizes train_sizes(const Graph& graph) {
  TrainSizes sizes;
  const auto most = [](size_t& slot, size_t value) { slot = std::max(slot, value); };
  sizes.block_out = graph.first_input_image();
  sizes.input_chunk = graph.stem_image();
  sizes.dy_chunk = chunk_of(graph.stem) * graph.stem_image();
  size_t consumer_chunk = 1;  // images in which a block's output is made and its gradient joined
  for (auto block = graph.blocks.rbegin(); block != graph.blocks.rend(); ++block) {
    most(sizes.block_out, block->out_image());
    most(sizes.input_chunk, consumer_chunk * block->out_image());
    most(sizes.dx_chunk, consumer_chunk * block->out_image());
    for (size_t i = 0; i < block->units.size(); ++i) {
      const ConvBn& unit = block->units[i];
      most(sizes.dy_chunk, chunk_of(unit) * unit.out_image());
      if (i == 0) continue;
      most(sizes.input_chunk, chunk_of(unit) * unit.in_image());
      most(sizes.inner, unit.in_image());
    }
    consumer_chunk = chunk_of(block->units.front());
    most(sizes.dx_chunk, consumer_chunk * block->in_image());
    if (block->projection) {
      most(sizes.dy_chunk, consumer_chunk * block->projection->out_image());
      most(sizes.dx2_chunk, consumer_chunk * block->in_image());
    }
  }
  return sizes;
}

}  // namespace

size_t Network::Impl::max_bn_width() {
  size_t width = 0;
  graph.each_unit([&](const ConvBn& unit) { width = std::max(width, unit.bn.width); });
  return width;
}

int Network::Impl::eval_batch() const noexcept {
  return config.eval_batch == 0 ? config.batch : config.eval_batch;
}

void Network::Impl::carve_train(Carver& carver) {
  const auto n = static_cast<size_t>(config.batch);
  const TrainSizes sizes = train_sizes(graph);
  graph.each_unit([&](ConvBn& unit) { unit.y = carver.take<float>(n * unit.out_image()); });
  for (Block& block : graph.blocks) {
    block.z = carver.take<float>(n * block.out_image());
  }
  float* first = carver.take<float>(n * graph.first_input_image());
  (graph.pooled ? train.pooled : train.stem_z) = first;
  if (graph.pooled) {
    train.pool_workspace = carver.take<std::byte>(n * graph.train_pool->workspace_bytes());
  }
  const auto features = static_cast<size_t>(graph.features);
  const auto classes = static_cast<size_t>(config.num_classes);
  train.features = carver.take<float>(n * features);
  train.feature_gradient = carver.take<float>(n * features);
  train.logits = carver.take<float>(n * classes);
  train.logit_gradient = carver.take<float>(n * classes);
  for (float*& gradient : train.block_gradient) {
    gradient = carver.take<float>(n * sizes.block_out);
  }
  for (float*& gradient : train.inner_gradient) {
    gradient = carver.take<float>(n * sizes.inner);
  }
  train.input_chunk = carver.take<float>(sizes.input_chunk);
  train.dy_chunk = carver.take<float>(sizes.dy_chunk);
  train.dx_chunk = carver.take<float>(sizes.dx_chunk);
  train.dx2_chunk = carver.take<float>(sizes.dx2_chunk);
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
    Carver carver(base);
    carve_train(carver);
    used = carver.used_bytes();
  }
  // Evaluation ends a pending step, so the two never live at the same time.
  Carver carver(base);
  carve_eval(carver);
  return std::max(used, carver.used_bytes());
}

uint64_t Network::Impl::carve_workspace(std::byte* base) {
  Carver carver(base);
  uint64_t scratch = graph.eval_fc->scratch_bytes();
  uint64_t copy = graph.eval_fc->copy_bytes();
  uint64_t chunk_gradient = 0;
  uint64_t plain = 0;
  const auto most = [](uint64_t& slot, uint64_t value) { slot = std::max(slot, value); };
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
      most(copy, unit.train->backward_weights_bytes());
      most(forward, unit.train->forward_weights_bytes());
      if (unit.shape.batch < config.batch) most(chunk_gradient, unit.train->weights_bytes());
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
  for (const Block& block : graph.blocks) {
    if (block.projection && block.projection->train) {
      most(side_copy, block.projection->train->backward_weights_bytes());
    }
  }
  work.side_weights_copy = carver.take<float>(side_copy / sizeof(float));
  work.weight_gradient = carver.take<float>(chunk_gradient / sizeof(float));
  work.partial = carver.take<float>(Passes::partial_floats(config.threads, max_bn_width()));
  work.plain = carver.take<float>(plain);
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
