// The shapes that networks are made of, read off the graphs that training builds.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "model/graph.hpp"

namespace npu::parity {

struct ConvolutionCase {
  model::ConvShape shape;
  bool needs_input_gradient = true;
  auto operator<=>(const ConvolutionCase&) const = default;
};

struct MapCase {
  int batch = 1;
  int h = 1;
  int w = 1;
  int channels = 1;
  auto operator<=>(const MapCase&) const = default;
};

struct LinearCase {
  int batch = 1;
  int in = 1;
  int out = 1;
  auto operator<=>(const LinearCase&) const = default;
};

struct OptionACase {
  int batch = 1;
  model::OptionA shape;
  [[nodiscard]] auto key() const {
    return std::tuple(batch, shape.in_h, shape.in_w, shape.in_c, shape.out_c);
  }
  bool operator<(const OptionACase& other) const { return key() < other.key(); }
};

/// Distinct shapes; adding a network twice changes nothing.
struct Shapes {
  std::set<ConvolutionCase> convolutions;
  std::set<MapCase> batch_norms;
  std::set<MapCase> max_pools;
  std::set<MapCase> average_pools;
  std::set<LinearCase> linears;
  std::set<OptionACase> option_as;

  [[nodiscard]] Result<void> add(const model::NetworkConfig& config) {
    NPU_TRY(model::Graph graph, model::build_graph(config));
    graph.each_unit([&](const model::ConvBn& unit) {
      convolutions.insert({unit.shape, &unit != &graph.stem});
      batch_norms.insert({config.batch, unit.shape.out_h(), unit.shape.out_w(), unit.shape.out_c});
    });
    const model::ConvShape& stem = graph.stem.shape;
    if (graph.pooled) max_pools.insert({1, stem.out_h(), stem.out_w(), stem.out_c});
    for (const model::Block& block : graph.blocks) {
      if (block.option_a) option_as.insert({config.batch, *block.option_a});
    }
    const model::ConvShape& last = graph.blocks.back().last().shape;
    average_pools.insert({config.batch, last.out_h(), last.out_w(), last.out_c});
    linears.insert({config.batch, graph.features, config.num_classes});
    return {};
  }
};

}  // namespace npu::parity
