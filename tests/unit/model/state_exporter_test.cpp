// Copies made beside the network have the bits of the network's own.
#include "model/state_exporter.hpp"

#include <atomic>
#include <thread>

#include "network_rig.hpp"

namespace npu::model::test {
namespace {

class StateExporterTest : public testing::TestWithParam<const char*> {
 protected:
  static NetworkConfig config() {
    NetworkConfig c = small_config();
    c.arch = GetParam();
    c.height = c.width = 24;
    c.batch = 2;
    return c;
  }
};

TEST_P(StateExporterTest, GivesWhatTheNetworkExports) {
  Rig rig(config());
  rig.step();
  Network& network = *rig.network;
  auto sut = StateExporter::create(network);
  ASSERT_TRUE(sut) << sut.error().message;
  for (size_t i = 0; i < network.state().size(); ++i) {
    const StateEntry& entry = network.state()[i];
    if (entry.kind == StateKind::kBatchesTracked) continue;
    std::vector<float> want(entry.count), got(entry.count);
    network.export_state(i, want);
    if (entry.kind == StateKind::kBuffer) {
      EXPECT_TRUE(same_bits(sut->buffer(i, network.bn_buffers()), want)) << entry.name;
      continue;
    }
    sut->parameter(i, network.parameters_flat(), got);
    EXPECT_TRUE(same_bits(got, want)) << entry.name;
    EXPECT_GE(sut->owned(i, network.parameters_flat()).size(), entry.count) << entry.name;
    network.export_momentum(i, want);
    sut->parameter(i, network.momentum_flat(), got);
    EXPECT_TRUE(same_bits(got, want)) << "momentum of " << entry.name;
  }
}

TEST_P(StateExporterTest, WorksWhileTheNetworkComputes) {
  Rig rig(config());
  Network& network = *rig.network;
  auto sut = StateExporter::create(network);
  ASSERT_TRUE(sut);
  std::vector<std::vector<float>> want, got;
  for (size_t i = 0; i < network.state().size(); ++i) {
    const StateEntry& entry = network.state()[i];
    const bool parameter = entry.kind == StateKind::kParameter;
    want.emplace_back(parameter ? entry.count : 0);
    got.emplace_back(want.back().size());
    if (parameter) network.export_state(i, want.back());
  }
  const auto flat = network.parameters_flat();
  std::atomic<bool> started{false};
  std::thread helper([&] {
    started.store(true);
    for (size_t i = 0; i < got.size(); ++i) {
      if (!got[i].empty()) sut->parameter(i, flat, got[i]);
    }
  });
  while (!started.load()) std::this_thread::yield();
  const auto loss = network.forward_train(rig.images, rig.labels);
  EXPECT_TRUE(loss);
  EXPECT_TRUE(network.backward({}));
  helper.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, StateExporterTest, testing::Values("resnet8", "resnet50-32"),
                         [](const auto& test) -> std::string {
                           return std::string(test.param) == "resnet8" ? "resnet8" : "resnet50";
                         });

}  // namespace
}  // namespace npu::model::test
