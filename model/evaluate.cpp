// Evaluation: one fixed-size chunk of images at a time through all layers. The last chunk is
// padded, so a sample meets the same code whatever the batch is and its logits do not depend on its
// neighbours. Always fp32, with the master weights.
#include <algorithm>

#include "model/network_impl.hpp"

namespace npu::model {

void Network::Impl::eval_chunk(const float* source, float* out_logits) {
  const auto m = static_cast<size_t>(graph.eval_chunk);
  const auto run = [&](ConvBn& unit, const float* src, float* dst) {
    unit.eval->forward(src, eval_weights(unit), dst, work.scratch);
  };
  float* x = eval.map[0];
  float* spare = eval.map[1];
  float* side = eval.map[2];
  float* next = eval.map[3];
  const size_t stem_image = graph.stem_image();
  run(graph.stem, source, spare);
  fp32_passes.normalise(as_stored(spare), m * stem_image, graph.stem.bn, {}, {},
                        graph.pooled ? spare : x);
  for (size_t i = 0; graph.pooled && i < m; ++i) {
    graph.eval_pool->forward(spare + i * stem_image, x + i * graph.first_input_image(), nullptr,
                             work.scratch);
  }
  for (Block& block : graph.blocks) {
    ResidualInput residual{.fp32 = x};
    if (block.projection) {
      run(*block.projection, x, side);
      residual = {.stored = as_stored(side), .norm = &block.projection->bn};
    } else if (block.option_a) {
      option_a_forward(*block.option_a, x, graph.eval_chunk, side);
      residual.fp32 = side;
    }
    float* made = x;
    float* dst = spare;
    float* other = next;
    for (ConvBn& unit : block.units) {
      run(unit, made, dst);
      const bool last = &unit == &block.units.back();
      fp32_passes.normalise(as_stored(dst), m * unit.out_image(), unit.bn,
                            last ? residual : ResidualInput{}, {}, dst);
      made = dst;
      std::swap(dst, other);
    }
    // One of the two inner maps; it becomes the next block's input and x becomes free.
    (made == spare ? spare : next) = x;
    x = made;
  }
  average_pool_forward(x, graph.eval_chunk, graph.feature_pixels,
                       static_cast<size_t>(graph.features), eval.features);
  const float* weights = parameter_memory + parameters[graph.fc_weight_index].offset;
  const float* bias = parameter_memory + parameters[graph.fc_bias_index].offset;
  const auto features = static_cast<size_t>(graph.features);
  const auto classes = static_cast<size_t>(config.num_classes);
  for (size_t i = 0; i < m; ++i) {
    graph.eval_fc->forward(eval.features + i * features, weights, bias, out_logits + i * classes,
                           work.weights_copy, work.scratch);
  }
}

Result<std::span<const float>> Network::Impl::evaluate_batch(std::span<const float> source, int n) {
  const size_t image = graph.stem.in_image();
  if (n < 1 || n > eval_batch() || source.size() != static_cast<size_t>(n) * image) {
    return fail(Code::kInvalidArgument,
                "forward_eval: {} samples in {} values; expected 1..{} samples of {} values each",
                n, source.size(), eval_batch(), image);
  }
  step_pending = false;
  graph.each_unit([](ConvBn& unit) { unit.bn.use_running(); });
  const auto m = static_cast<size_t>(graph.eval_chunk);
  const auto classes = static_cast<size_t>(config.num_classes);
  for (size_t first = 0; first < static_cast<size_t>(n); first += m) {
    const size_t present = std::min(m, static_cast<size_t>(n) - first);
    const float* chunk = source.data() + first * image;
    if (present < m) {
      std::copy_n(chunk, present * image, eval.images);
      std::fill_n(eval.images + present * image, (m - present) * image, 0.0F);
      chunk = eval.images;
    }
    eval_chunk(chunk, eval.logits + first * classes);
  }
  return std::span<const float>(eval.logits, static_cast<size_t>(n) * classes);
}

}  // namespace npu::model
