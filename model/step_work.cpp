#include "model/step_work.hpp"

#include "model/graph.hpp"

namespace npu::model {
namespace {

uint64_t macs(const ConvBn& unit) {
  const auto taps =
      static_cast<uint64_t>(unit.shape.kernel) * static_cast<uint64_t>(unit.shape.kernel);
  return unit.out_image() * taps * static_cast<uint64_t>(unit.shape.in_c);
}

}  // namespace

Result<StepWork> step_work(const NetworkConfig& config) {
  NPU_TRY(Graph graph, build_graph(config));
  StepWork work;
  work.stem_macs = macs(graph.stem);
  graph.each_unit([&](const ConvBn& unit) { work.forward_macs += macs(unit); });
  work.forward_macs +=
      static_cast<uint64_t>(graph.features) * static_cast<uint64_t>(config.num_classes);
  return work;
}

}  // namespace npu::model
