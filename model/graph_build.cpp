// Primitives and parameters of a graph whose shapes are known.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "model/graph.hpp"

namespace npu::model {
namespace {

/// The processor decides, so all ranks of a host agree.
Operands conv_operands(const NetworkConfig& config) {
  const bool bf16 = config.dtype == DType::kBFloat16 && has_bf16_products();
  return bf16 ? Operands::kBf16 : Operands::kFp32;
}

/// Equal shapes share one primitive: fewer to build, and hot code stays in the instruction cache.
class ConvolutionCache {
 public:
  ConvolutionCache(std::shared_ptr<Context> context, const NetworkConfig& config, int eval_chunk)
      : context_(std::move(context)), config_(config), eval_chunk_(eval_chunk) {}

  Result<void> fill(ConvBn& unit, bool needs_input_gradient) {
    const auto key = std::make_pair(unit.shape, needs_input_gradient);
    if (config_.training) {
      std::shared_ptr<Convolution>& train = train_[key];
      if (!train) {
        NPU_TRY(train, Convolution::for_training(context_, unit.shape, needs_input_gradient,
                                                 conv_operands(config_)));
      }
      unit.train = train;
    }
    std::shared_ptr<Convolution>& eval = eval_[key];
    if (!eval) {
      ConvShape shape = unit.shape;
      shape.batch = eval_chunk_;
      NPU_TRY(eval, Convolution::for_evaluation(context_, shape, unit.train.get()));
    }
    unit.eval = eval;
    return {};
  }

 private:
  using Key = std::pair<ConvShape, bool>;
  std::shared_ptr<Context> context_;
  const NetworkConfig& config_;
  int eval_chunk_;
  std::map<Key, std::shared_ptr<Convolution>> train_;
  std::map<Key, std::shared_ptr<Convolution>> eval_;
};

void add_unit_parameters(ParameterTable& table, Graph& graph, ConvBn& unit) {
  const ConvShape& s = unit.shape;
  const Convolution& conv = unit.train ? *unit.train : *unit.eval;
  const auto taps = static_cast<uint64_t>(s.kernel) * static_cast<uint64_t>(s.kernel);
  unit.weight_index =
      table.add({.name = unit.conv_name + ".weight",
                 .shape = {s.out_c, s.in_c, s.kernel, s.kernel},
                 .role = Role::kConvWeight,
                 .count = static_cast<uint64_t>(s.out_c) * static_cast<uint64_t>(s.in_c) * taps,
                 .physical = conv.weights_bytes() / sizeof(float),
                 .layout = conv.master_layout().signature(),
                 .offset = 0});
  const auto vector = [&](const char* suffix, Role role) {
    const auto channels = static_cast<uint64_t>(s.out_c);
    return table.add({.name = unit.bn_name + suffix,
                      .shape = {s.out_c},
                      .role = role,
                      .count = channels,
                      .physical = channels,
                      .layout = "a",
                      .offset = 0});
  };
  unit.bn_weight_index = vector(".weight", Role::kBnWeight);
  unit.bn_bias_index = vector(".bias", Role::kBnBias);
  unit.buffer_offset = graph.buffer_floats;
  graph.buffer_floats += 2 * static_cast<uint64_t>(s.out_c);
}

void add_fc_parameters(ParameterTable& table, Graph& graph, int classes) {
  const Linear& fc = graph.train_fc ? *graph.train_fc : *graph.eval_fc;
  const auto out = static_cast<uint64_t>(classes);
  graph.fc_weight_index = table.add({.name = "fc.weight",
                                     .shape = {classes, graph.features},
                                     .role = Role::kFcWeight,
                                     .count = out * static_cast<uint64_t>(graph.features),
                                     .physical = fc.weights_bytes() / sizeof(float),
                                     .layout = fc.master_layout().signature(),
                                     .offset = 0});
  graph.fc_bias_index = table.add({.name = "fc.bias",
                                   .shape = {classes},
                                   .role = Role::kFcBias,
                                   .count = out,
                                   .physical = out,
                                   .layout = "a",
                                   .offset = 0});
}

/// The order in which backward.cpp finishes gradients.
std::vector<size_t> completion_order(const Graph& graph) {
  std::vector<size_t> order{graph.fc_weight_index, graph.fc_bias_index};
  const auto bn = [&](const ConvBn& unit) {
    order.push_back(unit.bn_weight_index);
    order.push_back(unit.bn_bias_index);
  };
  for (auto block = graph.blocks.rbegin(); block != graph.blocks.rend(); ++block) {
    bn(block->last());
    if (block->projection) bn(*block->projection);
    for (size_t i = block->units.size(); i-- > 0;) {
      order.push_back(block->units[i].weight_index);
      if (i > 0) bn(block->units[i - 1]);
    }
    if (block->projection) order.push_back(block->projection->weight_index);
  }
  bn(graph.stem);
  order.push_back(graph.stem.weight_index);
  return order;
}

}  // namespace

Result<void> build_primitives(Graph& graph, const NetworkConfig& config,
                              const std::shared_ptr<Context>& context) {
  ConvolutionCache cache(context, config, graph.eval_chunk);
  NPU_TRY_VOID(cache.fill(graph.stem, false));
  for (Block& block : graph.blocks) {
    for (ConvBn& unit : block.units) {
      NPU_TRY_VOID(cache.fill(unit, true));
    }
    if (block.projection) NPU_TRY_VOID(cache.fill(*block.projection, true));
  }
  if (config.training) {
    NPU_TRY(graph.train_fc, Linear::create(context, config.batch, graph.features,
                                           config.num_classes, true, nullptr));
  }
  // One sample at a time: oneDNN's AVX2 matrix product gives a row other bits in a tail of rows.
  NPU_TRY(graph.eval_fc, Linear::create(context, 1, graph.features, config.num_classes, false,
                                        graph.train_fc.get()));
  if (!graph.pooled) return {};
  const ConvShape& stem = graph.stem.shape;
  if (config.training) {
    NPU_TRY(graph.train_pool,
            MaxPool::create(context, stem.out_h(), stem.out_w(), stem.out_c, true));
  }
  NPU_TRY(graph.eval_pool, MaxPool::create(context, stem.out_h(), stem.out_w(), stem.out_c, false));
  return {};
}

ParameterTable build_parameters(Graph& graph, const NetworkConfig& config) {
  ParameterTable table;
  graph.buffer_floats = 0;
  graph.each_unit([&](ConvBn& unit) { add_unit_parameters(table, graph, unit); });
  add_fc_parameters(table, graph, config.num_classes);
  table.lay_out(completion_order(graph), config.first_bucket_bytes, config.bucket_bytes);
  return table;
}

}  // namespace npu::model
