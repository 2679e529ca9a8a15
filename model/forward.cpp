// Forward in training mode. Each convolution runs over chunks of images: its input is made right
// before (normalise + ReLU of what the previous one left), its output is stored and its statistics
// are summed right after, both while in cache.
#include "model/network_impl.hpp"

namespace npu::model {

/// The weights as the evaluation kernel reads them.
const float* Network::Impl::eval_weights(ConvBn& unit) {
  if (unit.eval->forward_weights_bytes() == 0) return unit.weights;
  if (unit.forward_stale) {
    unit.eval->make_forward_weights(unit.weights, unit.forward_weights, work.scratch);
    unit.forward_stale = false;
  }
  return unit.forward_weights;
}

/// The weights as the training kernel reads them, rounded to the format; valid until `copy` is used
/// again.
const void* Network::Impl::train_weights(ConvBn& unit, float* copy) {
  enter(unit);
  const Convolution& conv = *unit.train;
  const bool own_layout = conv.forward_weights_bytes() != 0;
  if (is_fp32()) {
    if (!own_layout) return unit.weights;
    if (unit.forward_stale) {
      unit.train->make_forward_weights(unit.weights, unit.forward_weights, work.scratch);
      unit.forward_stale = false;
    }
    return unit.forward_weights;
  }
  if (own_layout) unit.train->make_forward_weights(unit.weights, copy, work.scratch);
  if (has_bf16_operands()) return copy;  // rounded on the way
  const uint64_t bytes = own_layout ? conv.forward_weights_bytes() : conv.weights_bytes();
  passes.round(own_layout ? copy : unit.weights, copy, bytes / sizeof(float));
  return copy;
}

/// Images of the batch as the first convolution reads them.
const void* Network::Impl::image_operand(int first, int count) {
  const size_t image = graph.stem.in_image();
  const float* src = images + static_cast<size_t>(first) * image;
  if (is_fp32()) return src;
  const size_t size = static_cast<size_t>(count) * image;
  if (has_bf16_operands()) {
    passes.narrow(src, train.input_operand, size);
    return train.input_operand.data;
  }
  passes.round(src, train.input_chunk, size);
  return train.input_chunk;
}

/// relu(bn(y)) of a unit inside a block, as the convolution behind it reads it.
const void* Network::Impl::unit_operand(const ConvBn& before, int first, int count) {
  const size_t image = before.out_image();
  const Stored y = before.y.at(static_cast<size_t>(first) * image);
  const size_t size = static_cast<size_t>(count) * image;
  if (has_bf16_operands()) {
    passes.normalise(y, size, before.bn, {}, train.input_operand, nullptr);
    return train.input_operand.data;
  }
  passes.normalise(y, size, before.bn, {}, {}, train.input_chunk);
  return train.input_chunk;
}

void Network::Impl::forward_chunk(ConvBn& unit, int first, const void* src, const void* weights) {
  enter(unit);
  const Stored kept = unit.y.at(static_cast<size_t>(first) * unit.out_image());
  float* y = is_fp32() ? kept.fp32() : train.dy_chunk;
  unit.train->forward(src, weights, y, work.scratch);
  if (first == 0) unit.bn.begin_forward(y);
  passes.moments(y, static_cast<size_t>(unit.shape.batch) * unit.out_image(), unit.bn,
                 is_fp32() ? Stored{} : kept);
}

void Network::Impl::finish_unit(ConvBn& unit) {
  const uint64_t rows = static_cast<uint64_t>(config.batch) * unit.out_pixels();
  unit.bn.finish_forward(sync.forward(unit.bn, rows));
  ++unit.batches_tracked;
}

void Network::Impl::forward_stem() {
  ConvBn& stem = graph.stem;
  const void* weights = train_weights(stem, work.weights_copy);
  for (int first = 0; first < config.batch; first += stem.shape.batch) {
    forward_chunk(stem, first, image_operand(first, stem.shape.batch), weights);
  }
  finish_unit(stem);
}

void Network::Impl::forward_block(size_t b) {
  Block& block = graph.blocks[b];
  ConvBn& head = block.units.front();
  const void* weights = train_weights(head, work.weights_copy);
  const void* side_weights =
      block.projection ? train_weights(*block.projection, work.side_weights_copy) : nullptr;
  for (int first = 0; first < config.batch; first += head.shape.batch) {
    const void* src = first_joint_operand(b, first, head.shape.batch);
    forward_chunk(head, first, src, weights);
    if (block.projection) forward_chunk(*block.projection, first, src, side_weights);
  }
  finish_unit(head);
  if (block.projection) finish_unit(*block.projection);
  for (size_t u = 1; u < block.units.size(); ++u) {
    ConvBn& unit = block.units[u];
    weights = train_weights(unit, work.weights_copy);
    for (int first = 0; first < config.batch; first += unit.shape.batch) {
      const void* src = unit_operand(block.units[u - 1], first, unit.shape.batch);
      forward_chunk(unit, first, src, weights);
    }
    finish_unit(unit);
  }
}

/// Average pooling and the fully connected layer; its bias stays fp32.
void Network::Impl::forward_head() {
  const auto channels = static_cast<size_t>(graph.features);
  const auto n = static_cast<size_t>(config.batch);
  for (int i = 0; i < config.batch; ++i) {
    const float* z = first_joint_values(graph.blocks.size(), i, 1, train.input_chunk);
    average_pool_forward(z, 1, graph.feature_pixels, channels,
                         train.features + static_cast<size_t>(i) * channels);
  }
  if (profile != nullptr) [[unlikely]]
    profile->enter(&graph.train_fc);
  const float* weights = parameter_memory + parameters[graph.fc_weight_index].offset;
  if (!is_fp32()) {
    passes.round(train.features, train.features, n * channels);
    passes.round(weights, work.fc_weights, graph.train_fc->weights_bytes() / sizeof(float));
    weights = work.fc_weights;
  }
  graph.train_fc->forward(train.features, weights,
                          parameter_memory + parameters[graph.fc_bias_index].offset, train.logits,
                          work.weights_copy, work.scratch);
  if (!is_fp32()) {
    passes.round(train.logits, train.logits, n * static_cast<size_t>(config.num_classes));
  }
}

void Network::Impl::forward_walk() {
  forward_stem();
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    forward_block(b);
  }
  forward_head();
}

}  // namespace npu::model
