// Backward. Mirrors forward.cpp: batch-norm sums are taken from a chunk of gradient right after the
// convolution that made it, gradients of convolution outputs and recomputed inputs exist for one
// chunk only.
#include "model/network_impl.hpp"

namespace npu::model {

/// Notes that a gradient is final and reports each bucket that thereby is complete.
void Network::Impl::completed(size_t parameter) {
  NPU_CHECK(parameters[parameter].offset == completed_floats);
  completed_floats = parameters.end_of(parameter);
  const auto buckets = parameters.buckets();
  while (announced < buckets.size() && buckets[announced].end <= completed_floats) {
    if (listener != nullptr && *listener) (*listener)(announced);
    ++announced;
  }
}

void Network::Impl::completed_bn(ConvBn& unit) {
  unit.bn.finish_backward(static_cast<uint64_t>(config.batch) * unit.out_pixels());
  completed(unit.bn_weight_index);
  completed(unit.bn_bias_index);
}

/// The weights as the input-gradient kernel reads them, valid until `copy` is used again.
const float* Network::Impl::backward_weights(ConvBn& unit, float* copy) {
  if (unit.train->backward_weights_bytes() == 0) return unit.weights;
  unit.train->make_backward_weights(unit.weights, copy, work.scratch);
  return copy;
}

void Network::Impl::weight_gradient_chunk(ConvBn& unit, int first, const float* src,
                                          const float* dy) {
  // oneDNN overwrites: the first chunk goes where the sum is wanted, the others beside it.
  float* target = first == 0 ? unit.weight_gradient : work.weight_gradient;
  unit.train->backward_weights(src, dy, target, work.scratch);
  if (first == 0) return;
  passes.add(unit.weight_gradient, target, unit.weight_gradient,
             unit.train->weights_bytes() / sizeof(float));
}

/// Through unit u > 0 of a block: from the gradient behind it to the gradient behind unit u - 1.
void Network::Impl::backward_inner(Block& block, size_t u, const float* gradient, bool masked,
                                   float* out) {
  ConvBn& unit = block.units[u];
  ConvBn& previous = block.units[u - 1];
  const float* weights = backward_weights(unit, work.weights_copy);
  const auto chunk = static_cast<size_t>(unit.shape.batch);
  for (int first = 0; first < config.batch; first += unit.shape.batch) {
    const size_t y_at = static_cast<size_t>(first) * unit.out_image();
    const size_t x_at = static_cast<size_t>(first) * unit.in_image();
    const size_t x_size = chunk * unit.in_image();
    passes.bn_backward(gradient + y_at, unit.y + y_at, chunk * unit.out_image(), unit.bn, masked,
                       train.dy_chunk);
    passes.normalise(previous.y + x_at, x_size, previous.bn, {}, train.input_chunk);
    weight_gradient_chunk(unit, first, train.input_chunk, train.dy_chunk);
    unit.train->backward_data(train.dy_chunk, weights, out + x_at, work.scratch);
    passes.reduce_masked(out + x_at, previous.y + x_at, x_size, previous.bn);
  }
  completed(unit.weight_index);
  completed_bn(previous);
}

/// dx_chunk + add through the ReLU at the block's input, with the sums of the batch norms that feed
/// it.
void Network::Impl::join_chunk(size_t b, int first, int count, const float* add, float* out) {
  const size_t image = graph.blocks[b].in_image();
  const size_t at = static_cast<size_t>(first) * image;
  const size_t size = static_cast<size_t>(count) * image;
  if (b == 0 && graph.pooled) {
    passes.add(train.dx_chunk, add, out, size);  // max pooling has no ReLU behind it
    return;
  }
  ConvBn& source = b == 0 ? graph.stem : graph.blocks[b - 1].last();
  ConvBn* projection = nullptr;
  if (b > 0 && graph.blocks[b - 1].projection) projection = &*graph.blocks[b - 1].projection;
  passes.join({.dx = train.dx_chunk,
               .add = add,
               .z = block_input(b) + at,
               .out = out,
               .y = source.y + at,
               .bn = &source.bn,
               .y2 = projection == nullptr ? nullptr : projection->y + at,
               .bn2 = projection == nullptr ? nullptr : &projection->bn},
              size);
}

/// Through the first unit, the shortcut and the ReLU in front of the block.
void Network::Impl::backward_first(size_t b, const float* inner, const float* gradient,
                                   float* input_gradient) {
  Block& block = graph.blocks[b];
  ConvBn& unit = block.units.front();
  const auto chunk = static_cast<size_t>(unit.shape.batch);
  const float* weights = backward_weights(unit, work.weights_copy);
  const float* side_weights =
      block.projection ? backward_weights(*block.projection, work.side_weights_copy) : nullptr;
  for (int first = 0; first < config.batch; first += unit.shape.batch) {
    const size_t x_at = static_cast<size_t>(first) * unit.in_image();
    const size_t y_at = static_cast<size_t>(first) * unit.out_image();
    const size_t out_at = static_cast<size_t>(first) * block.out_image();
    const float* x = block_input(b) + x_at;
    passes.bn_backward(inner + y_at, unit.y + y_at, chunk * unit.out_image(), unit.bn, true,
                       train.dy_chunk);
    weight_gradient_chunk(unit, first, x, train.dy_chunk);
    unit.train->backward_data(train.dy_chunk, weights, train.dx_chunk, work.scratch);
    const float* add = gradient + out_at;
    if (block.projection) {
      ConvBn& side = *block.projection;
      passes.bn_backward(gradient + out_at, side.y + out_at, chunk * side.out_image(), side.bn,
                         false, train.dy_chunk);
      weight_gradient_chunk(side, first, x, train.dy_chunk);
      side.train->backward_data(train.dy_chunk, side_weights, train.dx2_chunk, work.scratch);
      add = train.dx2_chunk;
    } else if (block.option_a) {
      option_a_backward(*block.option_a, gradient + out_at, unit.shape.batch, train.dx_chunk);
      add = nullptr;
    }
    join_chunk(b, first, unit.shape.batch, add, input_gradient + x_at);
  }
  completed(unit.weight_index);
  if (block.projection) completed(block.projection->weight_index);
}

void Network::Impl::backward_block(size_t b, float* gradient, float* input_gradient) {
  Block& block = graph.blocks[b];
  completed_bn(block.last());
  if (block.projection) completed_bn(*block.projection);
  const float* behind = gradient;
  int slot = 0;
  for (size_t u = block.units.size() - 1; u > 0; --u) {
    // The block's own gradient has its ReLU applied already; inner ones are masked on the fly.
    backward_inner(block, u, behind, u + 1 < block.units.size(), train.inner_gradient[slot]);
    behind = train.inner_gradient[slot];
    slot ^= 1;
  }
  backward_first(b, behind, gradient, input_gradient);
}

void Network::Impl::backward_stem(const float* gradient) {
  ConvBn& stem = graph.stem;
  const size_t image = stem.out_image();
  const auto chunk = static_cast<size_t>(stem.shape.batch);
  const auto unpool = [&](size_t i, float* out) {
    graph.train_pool->backward(gradient + i * graph.first_input_image(),
                               train.pool_workspace + i * graph.train_pool->workspace_bytes(), out,
                               work.scratch);
  };
  if (graph.pooled) {
    // The gradient in front of the pooling is four times larger than behind it: made twice, never
    // stored.
    for (size_t i = 0; i < static_cast<size_t>(config.batch); ++i) {
      unpool(i, train.dy_chunk);
      passes.reduce_masked(train.dy_chunk, stem.y + i * image, image, stem.bn);
    }
  }
  completed_bn(stem);
  for (int first = 0; first < config.batch; first += stem.shape.batch) {
    const auto at = static_cast<size_t>(first);
    const float* dz = gradient + at * image;
    if (graph.pooled) {
      for (size_t i = 0; i < chunk; ++i) {
        unpool(at + i, train.dy_chunk + i * image);
      }
      dz = train.dy_chunk;
    }
    passes.bn_backward(dz, stem.y + at * image, chunk * image, stem.bn, graph.pooled,
                       train.dy_chunk);
    weight_gradient_chunk(stem, first, images + at * stem.in_image(), train.dy_chunk);
  }
  completed(stem.weight_index);
}

/// Loss, fully connected layer and average pooling, up to the masked gradient of the last block.
void Network::Impl::backward_head(float gradient_scale) {
  const size_t logits = static_cast<size_t>(config.batch) * static_cast<size_t>(config.num_classes);
  if (gradient_scale != 1.0F) {
    for (size_t i = 0; i < logits; ++i) {
      train.logit_gradient[i] *= gradient_scale;
    }
  }
  const Parameter& weight = parameters[graph.fc_weight_index];
  const Parameter& bias = parameters[graph.fc_bias_index];
  graph.train_fc->backward_weights(train.features, train.logit_gradient,
                                   gradient_memory + weight.offset, gradient_memory + bias.offset,
                                   work.scratch);
  completed(graph.fc_weight_index);
  completed(graph.fc_bias_index);
  graph.train_fc->backward_data(train.logit_gradient, parameter_memory + weight.offset,
                                train.feature_gradient, work.weights_copy, work.scratch);
  Block& last = graph.blocks.back();
  const auto channels = static_cast<size_t>(graph.features);
  const size_t image = last.out_image();
  for (size_t i = 0; i < static_cast<size_t>(config.batch); ++i) {
    average_pool_backward(train.feature_gradient + i * channels, 1, graph.feature_pixels, channels,
                          train.dx_chunk);
    passes.join({.dx = train.dx_chunk,
                 .add = nullptr,
                 .z = last.z + i * image,
                 .out = train.block_gradient[0] + i * image,
                 .y = last.last().y + i * image,
                 .bn = &last.last().bn,
                 .y2 = last.projection ? last.projection->y + i * image : nullptr,
                 .bn2 = last.projection ? &last.projection->bn : nullptr},
                image);
  }
}

void Network::Impl::backward_walk(const BucketReady& on_bucket_ready, float gradient_scale) {
  completed_floats = 0;
  announced = 0;
  listener = &on_bucket_ready;
  graph.each_unit([](ConvBn& unit) { unit.bn.begin_backward(); });
  backward_head(gradient_scale);
  int slot = 0;
  for (size_t b = graph.blocks.size(); b-- > 0;) {
    float* gradient = train.block_gradient[slot];
    // Same shape: updated in place, chunk by chunk.
    if (!graph.blocks[b].is_identity()) slot ^= 1;
    backward_block(b, gradient, train.block_gradient[slot]);
  }
  backward_stem(train.block_gradient[slot]);
  listener = nullptr;
}

}  // namespace npu::model
