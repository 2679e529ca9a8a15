// Forward in training mode. Each convolution runs over chunks of images: its input is made right
// before (normalise + ReLU of what the previous one left), its output's statistics are summed right
// after, both while in cache.
#include "model/network_impl.hpp"

namespace npu::model {

const float* Network::Impl::block_input(size_t block) const noexcept {
  if (block > 0) return graph.blocks[block - 1].z;
  return graph.pooled ? train.pooled : train.stem_z;
}

const float* Network::Impl::forward_weights(ConvBn& unit, Convolution& conv) {
  if (conv.forward_weights_bytes() == 0) return unit.weights;
  if (unit.forward_stale) {
    conv.make_forward_weights(unit.weights, unit.forward_weights, work.scratch);
    unit.forward_stale = false;
  }
  return unit.forward_weights;
}

void Network::Impl::forward_chunk(ConvBn& unit, int first, const float* src) {
  float* y = unit.y + static_cast<size_t>(first) * unit.out_image();
  unit.train->forward(src, forward_weights(unit, *unit.train), y, work.scratch);
  if (first == 0) unit.bn.begin_forward(y);
  passes.moments(y, static_cast<size_t>(unit.shape.batch) * unit.out_image(), unit.bn);
}

void Network::Impl::finish_unit(ConvBn& unit) {
  unit.bn.finish_forward(static_cast<uint64_t>(config.batch) * unit.out_pixels());
  ++unit.batches_tracked;
}

void Network::Impl::make_stem_output(int first, int count) {
  ConvBn& stem = graph.stem;
  const size_t image = stem.out_image();
  const auto at = static_cast<size_t>(first);
  const auto n = static_cast<size_t>(count);
  if (!graph.pooled) {
    passes.normalise(stem.y + at * image, n * image, stem.bn, {}, train.stem_z + at * image);
    return;
  }
  for (size_t i = at; i < at + n; ++i) {
    passes.normalise(stem.y + i * image, image, stem.bn, {}, train.input_chunk);
    graph.train_pool->forward(train.input_chunk, train.pooled + i * graph.first_input_image(),
                              train.pool_workspace + i * graph.train_pool->workspace_bytes(),
                              work.scratch);
  }
}

void Network::Impl::make_block_output(size_t index, int first, int count) {
  Block& block = graph.blocks[index];
  const auto at = static_cast<size_t>(first);
  const size_t out = at * block.out_image();
  ResidualInput residual;
  if (block.projection) {
    residual = {block.projection->y + out, &block.projection->bn};
  } else if (block.option_a) {
    option_a_forward(*block.option_a, block_input(index) + at * block.in_image(), count,
                     train.input_chunk);
    residual.data = train.input_chunk;
  } else {
    residual.data = block_input(index) + out;
  }
  passes.normalise(block.last().y + out, static_cast<size_t>(count) * block.out_image(),
                   block.last().bn, residual, block.z + out);
}

void Network::Impl::make_block_input(size_t block, int first, int count) {
  if (block == 0) {
    make_stem_output(first, count);
  } else {
    make_block_output(block - 1, first, count);
  }
}

void Network::Impl::forward_walk() {
  ConvBn& stem = graph.stem;
  for (int first = 0; first < config.batch; first += stem.shape.batch) {
    forward_chunk(stem, first, images + static_cast<size_t>(first) * stem.in_image());
  }
  finish_unit(stem);
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    Block& block = graph.blocks[b];
    ConvBn& head = block.units.front();
    for (int first = 0; first < config.batch; first += head.shape.batch) {
      make_block_input(b, first, head.shape.batch);
      const float* src = block_input(b) + static_cast<size_t>(first) * block.in_image();
      forward_chunk(head, first, src);
      if (block.projection) forward_chunk(*block.projection, first, src);
    }
    finish_unit(head);
    if (block.projection) finish_unit(*block.projection);
    for (size_t u = 1; u < block.units.size(); ++u) {
      ConvBn& unit = block.units[u];
      const ConvBn& previous = block.units[u - 1];
      for (int first = 0; first < config.batch; first += unit.shape.batch) {
        passes.normalise(previous.y + static_cast<size_t>(first) * unit.in_image(),
                         static_cast<size_t>(unit.shape.batch) * unit.in_image(), previous.bn, {},
                         train.input_chunk);
        forward_chunk(unit, first, train.input_chunk);
      }
      finish_unit(unit);
    }
  }
  for (int i = 0; i < config.batch; ++i) {
    make_block_output(graph.blocks.size() - 1, i, 1);
  }
  const auto channels = static_cast<size_t>(graph.features);
  average_pool_forward(graph.blocks.back().z, config.batch, graph.feature_pixels, channels,
                       train.features);
  graph.train_fc->forward(train.features,
                          parameter_memory + parameters[graph.fc_weight_index].offset,
                          parameter_memory + parameters[graph.fc_bias_index].offset, train.logits,
                          work.weights_copy, work.scratch);
}

}  // namespace npu::model
