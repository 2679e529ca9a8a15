// Backward. Mirrors forward.cpp: batch-norm sums are taken from a chunk of gradient right after the
// convolution that made it, gradients of convolution outputs and recomputed inputs exist for one
// chunk only. With a half format a chunk's scratch is fp32 and holds rounded values.
#include "model/network_impl.hpp"
#include "model/primitives/weight_gemm.hpp"

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
  const uint64_t rows = static_cast<uint64_t>(config.batch) * unit.out_pixels();
  unit.bn.finish_parameters();
  unit.bn.finish_input(sync.backward(unit.bn, rows));
  completed(unit.bn_weight_index);
  completed(unit.bn_bias_index);
}

/// The weights as the input-gradient kernel reads them, rounded to the format; valid until `copy`
/// is used again.
const void* Network::Impl::backward_weights(ConvBn& unit, float* copy) {
  enter(unit);
  const uint64_t own_layout = unit.train->backward_weights_bytes();
  if (own_layout != 0) unit.train->make_backward_weights(unit.weights, copy, work.scratch);
  const float* weights = own_layout != 0 ? copy : unit.weights;
  if (is_fp32() || has_bf16_operands()) return weights;  // bf16 copies are rounded on the way
  passes.round(weights, copy,
               (own_layout != 0 ? own_layout : unit.train->weights_bytes()) / sizeof(float));
  return copy;
}

/// The gradient of a chunk of a unit's convolution output, as convolutions read it; see
/// Passes::bn_backward.
const void* Network::Impl::output_gradient(ConvBn& unit, int first, const GradientInput& gradient,
                                           bool masked) {
  const Stored y = unit.y.at(static_cast<size_t>(first) * unit.out_image());
  const size_t size = static_cast<size_t>(unit.shape.batch) * unit.out_image();
  if (has_bf16_operands()) {
    passes.bn_backward(gradient, y, size, unit.bn, masked, train.dy_operand, nullptr);
    return train.dy_operand.data;
  }
  passes.bn_backward(gradient, y, size, unit.bn, masked, {}, train.dy_chunk);
  return train.dy_chunk;
}

/// Adds one chunk to a weight gradient, which is in the bucket after the last chunk. `partial`
/// holds what is between.
void Network::Impl::weight_gradient_chunk(ConvBn& unit, int first, const void* src, const void* dy,
                                          float* partial) {
  enter(unit);
  Convolution& conv = *unit.train;
  if (const WeightGemm* gemm = conv.weight_gemm()) {
    {
      const Timed timed(profile, &unit.bn, gemm->work());
      gemm->run(static_cast<const float*>(src), static_cast<const float*>(dy), first > 0, partial,
                work.patches);
    }
    if (first + unit.shape.batch == config.batch) {
      conv.gemm_to_master(partial, unit.weight_gradient, work.scratch);
    }
    return;
  }
  // oneDNN overwrites: the first chunk goes where the sum is wanted, the others beside it.
  float* target = first == 0 ? unit.weight_gradient : partial;
  conv.backward_weights(src, dy, target, work.scratch);
  if (first == 0) return;
  passes.add(unit.weight_gradient, target, unit.weight_gradient,
             conv.weights_bytes() / sizeof(float));
}

/// Through unit u > 0 of a block: from the gradient behind it to the gradient behind unit u - 1.
void Network::Impl::backward_inner(Block& block, size_t u, Stored gradient, bool masked,
                                   Stored out) {
  ConvBn& unit = block.units[u];
  ConvBn& previous = block.units[u - 1];
  const void* weights = backward_weights(unit, work.weights_copy);
  const int chunk = unit.shape.batch;
  for (int first = 0; first < config.batch; first += chunk) {
    const size_t y_at = static_cast<size_t>(first) * unit.out_image();
    const size_t x_at = static_cast<size_t>(first) * unit.in_image();
    const void* dy = output_gradient(unit, first, {.stored = gradient.at(y_at)}, masked);
    const void* x = unit_operand(previous, first, chunk);
    weight_gradient_chunk(unit, first, x, dy, work.weight_gradient);
    const Stored kept = out.at(x_at);
    float* dx = is_fp32() ? kept.fp32() : train.dx_chunk;
    unit.train->backward_data(dy, weights, dx, work.scratch);
    passes.reduce_masked(dx, previous.y.at(x_at), static_cast<size_t>(chunk) * unit.in_image(),
                         previous.bn, is_fp32() ? Stored{} : kept);
  }
  completed(unit.weight_index);
  completed_bn(previous);
}

/// dx_chunk + add through the ReLU at a joint, whose value is z, with the sums of the batch norms
/// that feed it.
void Network::Impl::join_chunk(size_t j, int first, int count, const float* z,
                               const GradientInput& add) {
  Joint& joint = graph.joints[j];
  const size_t at = static_cast<size_t>(first) * joint.image;
  const size_t size = static_cast<size_t>(count) * joint.image;
  if (j == 0 && graph.pooled) {
    // Max pooling has no ReLU behind it.
    passes.merge(train.dx_chunk, add, joint.gradient.at(at), size);
    return;
  }
  ConvBn& source = j == 0 ? graph.stem : graph.blocks[j - 1].last();
  ConvBn* projection = nullptr;
  if (j > 0 && graph.blocks[j - 1].projection) projection = &*graph.blocks[j - 1].projection;
  passes.join({.dx = train.dx_chunk,
               .add = add,
               .z = z,
               .out = joint.gradient.at(at),
               .y = source.y.at(at),
               .bn = &source.bn,
               .y2 = projection == nullptr ? Stored{} : projection->y.at(at),
               .bn2 = projection == nullptr ? nullptr : &projection->bn},
              size);
}

/// Through the first unit, the shortcut and the ReLU in front of the block.
void Network::Impl::backward_first(size_t b, Stored inner) {
  Block& block = graph.blocks[b];
  ConvBn& unit = block.units.front();
  const Stored gradient = graph.joints[b + 1].gradient;
  const int chunk = unit.shape.batch;
  const void* weights = backward_weights(unit, work.weights_copy);
  const void* side_weights =
      block.projection ? backward_weights(*block.projection, work.side_weights_copy) : nullptr;
  for (int first = 0; first < config.batch; first += chunk) {
    const size_t y_at = static_cast<size_t>(first) * unit.out_image();
    const size_t out_at = static_cast<size_t>(first) * block.out_image();
    const JointImages x = joint_images(b, first, chunk);
    const void* dy = output_gradient(unit, first, {.stored = inner.at(y_at)}, true);
    weight_gradient_chunk(unit, first, x.operand, dy, work.weight_gradient);
    unit.train->backward_data(dy, weights, train.dx_chunk, work.scratch);
    GradientInput add{.stored = gradient.at(out_at)};
    if (block.projection) {
      ConvBn& side = *block.projection;
      dy = output_gradient(side, first, add, false);
      weight_gradient_chunk(side, first, x.operand, dy, work.side_weight_gradient);
      side.train->backward_data(dy, side_weights, train.dx2_chunk, work.scratch);
      add = {.fp32 = train.dx2_chunk};
    } else if (block.option_a) {
      const float* dz = gradient.fp32() + out_at;
      if (!is_fp32()) {
        passes.widen(gradient.at(out_at), train.shortcut_chunk,
                     static_cast<size_t>(chunk) * block.out_image());
        dz = train.shortcut_chunk;
      }
      option_a_backward(*block.option_a, dz, chunk, train.dx_chunk);
      add = {};
    }
    join_chunk(b, first, chunk, x.values, add);
  }
  completed(unit.weight_index);
  if (block.projection) completed(block.projection->weight_index);
}

void Network::Impl::backward_block(size_t b) {
  Block& block = graph.blocks[b];
  completed_bn(block.last());
  if (block.projection) completed_bn(*block.projection);
  Stored behind = graph.joints[b + 1].gradient;
  int slot = 0;
  for (size_t u = block.units.size() - 1; u > 0; --u) {
    // The block's own gradient has its ReLU applied already; inner ones are masked on the fly.
    backward_inner(block, u, behind, u + 1 < block.units.size(), block.inner_gradient[slot]);
    behind = block.inner_gradient[slot];
    slot ^= 1;
  }
  backward_first(b, behind);
}

void Network::Impl::backward_stem() {
  ConvBn& stem = graph.stem;
  const Joint& joint = graph.joints.front();
  const size_t image = stem.out_image();
  const auto chunk = static_cast<size_t>(stem.shape.batch);
  const auto unpool = [&](size_t i, float* out) {
    const float* dz = joint.gradient.fp32() + i * joint.image;
    if (!is_fp32()) {
      passes.widen(joint.gradient.at(i * joint.image), train.dx_chunk, joint.image);
      dz = train.dx_chunk;
    }
    graph.train_pool->backward(dz, train.pool_workspace + i * graph.train_pool->workspace_bytes(),
                               out, work.scratch);
  };
  if (profile != nullptr) [[unlikely]]
    profile->enter(&graph.train_pool);
  if (graph.pooled) {
    // The gradient in front of the pooling is four times larger than behind it: made twice, never
    // stored.
    for (size_t i = 0; i < static_cast<size_t>(config.batch); ++i) {
      unpool(i, train.dy_chunk);
      passes.reduce_masked(train.dy_chunk, stem.y.at(i * image), image, stem.bn, {});
    }
  }
  completed_bn(stem);
  for (int first = 0; first < config.batch; first += stem.shape.batch) {
    const auto at = static_cast<size_t>(first);
    GradientInput dz;
    if (graph.pooled) {
      if (profile != nullptr) [[unlikely]]
        profile->enter(&graph.train_pool);
      for (size_t i = 0; i < chunk; ++i) {
        unpool(at + i, train.dy_chunk + i * image);
      }
      dz.fp32 = train.dy_chunk;
    } else {
      dz.stored = joint.gradient.at(at * image);
    }
    const void* dy = output_gradient(stem, first, dz, graph.pooled);
    enter(stem);
    weight_gradient_chunk(stem, first, image_operand(first, stem.shape.batch), dy,
                          work.weight_gradient);
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
  const auto channels = static_cast<size_t>(graph.features);
  const size_t features = static_cast<size_t>(config.batch) * channels;
  if (profile != nullptr) [[unlikely]]
    profile->enter(&graph.train_fc);
  if (!is_fp32()) passes.round(train.logit_gradient, train.logit_gradient, logits);
  graph.train_fc->backward_weights(train.features, train.logit_gradient,
                                   gradient_memory + weight.offset, gradient_memory + bias.offset,
                                   work.scratch);
  completed(graph.fc_weight_index);
  completed(graph.fc_bias_index);
  graph.train_fc->backward_data(train.logit_gradient,
                                is_fp32() ? parameter_memory + weight.offset : work.fc_weights,
                                train.feature_gradient, work.weights_copy, work.scratch);
  if (!is_fp32()) passes.round(train.feature_gradient, train.feature_gradient, features);
  const size_t last = graph.blocks.size();
  for (int i = 0; i < config.batch; ++i) {
    average_pool_backward(train.feature_gradient + static_cast<size_t>(i) * channels, 1,
                          graph.feature_pixels, channels, train.dx_chunk);
    join_chunk(last, i, 1, joint_values(last, i, 1, train.input_chunk), {});
  }
}

void Network::Impl::backward_walk(const BucketReady& on_bucket_ready, float gradient_scale) {
  completed_floats = 0;
  announced = 0;
  listener = &on_bucket_ready;
  graph.each_unit([](ConvBn& unit) { unit.bn.begin_backward(); });
  backward_head(gradient_scale);
  for (size_t b = graph.blocks.size(); b-- > 0;) {
    backward_block(b);
  }
  backward_stem();
  listener = nullptr;
}

}  // namespace npu::model
