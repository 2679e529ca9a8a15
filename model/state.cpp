// The state dict: torchvision's names and order, plain OIHW values out of the layouts that
// parameters live in.
#include <algorithm>

#include "model/init.hpp"
#include "model/network_impl.hpp"

namespace npu::model {

void Network::Impl::make_state() {
  const auto parameter = [&](size_t index) {
    const Parameter& p = parameters[index];
    entries.push_back(
        {.name = p.name, .shape = p.shape, .kind = StateKind::kParameter, .count = p.count});
    entry_refs.push_back({.parameter = index, .unit = nullptr, .variance = false});
  };
  graph.each_unit([&](ConvBn& unit) {
    parameter(unit.weight_index);
    parameter(unit.bn_weight_index);
    parameter(unit.bn_bias_index);
    for (const bool variance : {false, true}) {
      entries.push_back({.name = unit.bn_name + (variance ? ".running_var" : ".running_mean"),
                         .shape = {static_cast<int64_t>(unit.bn.channels)},
                         .kind = StateKind::kBuffer,
                         .count = unit.bn.channels});
      entry_refs.push_back({.parameter = 0, .unit = &unit, .variance = variance});
    }
    entries.push_back({.name = unit.bn_name + ".num_batches_tracked",
                       .shape = {},
                       .kind = StateKind::kBatchesTracked,
                       .count = 1});
    entry_refs.push_back({.parameter = 0, .unit = &unit, .variance = false});
  });
  parameter(graph.fc_weight_index);
  parameter(graph.fc_bias_index);
}

namespace {

/// The convolution that keeps a parameter's weights, null for vectors and the fc.
Convolution* convolution_of(Graph& graph, size_t parameter) {
  Convolution* found = nullptr;
  graph.each_unit([&](ConvBn& unit) {
    if (unit.weight_index == parameter) found = unit.train ? unit.train.get() : unit.eval.get();
  });
  return found;
}

}  // namespace

void Network::Impl::to_plain(size_t index, const float* flat, std::span<float> out) {
  const Parameter& p = parameters[index];
  const float* from = flat + p.offset;
  NPU_CHECK(out.size() == p.count);
  if (p.role == Role::kConvWeight) {
    convolution_of(graph, index)->to_plain(from, out.data(), work.scratch);
  } else if (p.role == Role::kFcWeight) {
    (graph.train_fc ? *graph.train_fc : *graph.eval_fc).to_plain(from, out.data(), work.scratch);
  } else {
    std::copy_n(from, p.count, out.data());
  }
}

void Network::Impl::from_plain(size_t index, std::span<const float> values, float* flat) {
  const Parameter& p = parameters[index];
  float* to = flat + p.offset;
  NPU_CHECK(values.size() == p.count);
  if (p.role == Role::kConvWeight) {
    convolution_of(graph, index)->from_plain(values.data(), to, work.scratch);
  } else if (p.role == Role::kFcWeight) {
    (graph.train_fc ? *graph.train_fc : *graph.eval_fc).from_plain(values.data(), to, work.scratch);
  } else {
    std::copy_n(values.data(), p.count, to);
  }
}

void Network::Impl::initialise(uint64_t seed) {
  for (size_t i = 0; i < parameters.all().size(); ++i) {
    const std::span<float> plain(work.plain, parameters[i].count);
    draw_parameter(parameters[i], i, seed, graph.features, plain, config.init);
    from_plain(i, plain, parameter_memory);
  }
  graph.each_unit([&](ConvBn& unit) {
    std::fill_n(unit.bn.running_mean, unit.bn.channels, 0.0F);
    std::fill_n(unit.bn.running_var, unit.bn.channels, 1.0F);
    unit.batches_tracked = 0;
    unit.forward_stale = true;
  });
  if (config.zero_init_residual) {
    for (Block& block : graph.blocks) {
      std::fill_n(block.last().bn.weight, block.last().bn.channels, 0.0F);
    }
  }
  if (momentum_memory != nullptr) std::fill_n(momentum_memory, parameters.flat_floats(), 0.0F);
}

}  // namespace npu::model
