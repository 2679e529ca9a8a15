#include "model/arch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "model/graph.hpp"
#include "model/network.hpp"

namespace npu::model {
namespace {

TEST(FindArch, UnknownNameListsTheKnownOnes) {
  const auto result = find_arch("vgg16");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_NE(result.error().message.find("vgg16"), std::string::npos);
  for (const std::string& name : known_archs()) {
    EXPECT_NE(result.error().message.find(name), std::string::npos) << name;
    EXPECT_TRUE(find_arch(name));
  }
}

struct Size {
  const char* arch;
  int classes;
  int channels;
  uint64_t parameters;
  size_t norms;  // BN layers; each convolution has one
};

void PrintTo(const Size& size, std::ostream* os) {
  *os << size.arch << ", " << size.classes << " classes, " << size.channels << " channels";
}

size_t parameter_tensors(std::span<const StateEntry> state) {
  return static_cast<size_t>(std::ranges::count(state, StateKind::kParameter, &StateEntry::kind));
}

class ModelSize : public testing::TestWithParam<Size> {};

TEST_P(ModelSize, ParametersAndEntriesMatchTheReference) {
  const Size& want = GetParam();
  const auto sut = Network::plan({.arch = want.arch,
                                  .num_classes = want.classes,
                                  .channels = want.channels,
                                  .height = 32,
                                  .width = 32,
                                  .batch = 2,
                                  .training = false});
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->parameter_count(), want.parameters);
  const auto state = sut->state();
  // A convolution and four vectors and a counter a layer, then fc.weight and fc.bias.
  EXPECT_EQ(state.size(), 6 * want.norms + 2);
  EXPECT_EQ(parameter_tensors(state), 3 * want.norms + 2);
  EXPECT_EQ(
      static_cast<size_t>(std::ranges::count(state, StateKind::kBatchesTracked, &StateEntry::kind)),
      want.norms);
  EXPECT_EQ(state[0].name, "conv1.weight");
  EXPECT_EQ(state[0].shape[1], want.channels);
  EXPECT_EQ(state[5].name, "bn1.num_batches_tracked");
  EXPECT_EQ(state[6].name, "layer1.0.conv1.weight");
  EXPECT_EQ(state[state.size() - 2].name, "fc.weight");
  EXPECT_EQ(state[state.size() - 1].name, "fc.bias");
  EXPECT_EQ(state[state.size() - 1].shape, std::vector<int64_t>{want.classes});
}

INSTANTIATE_TEST_SUITE_P(
    Reference, ModelSize,
    testing::Values(
        Size{"resnet18", 1000, 3, 11689512, 20}, Size{"resnet34", 1000, 3, 21797672, 36},
        Size{"resnet50", 1000, 3, 25557032, 53}, Size{"resnet101", 1000, 3, 44549160, 104},
        Size{"resnet152", 1000, 3, 60192808, 155}, Size{"resnet50", 1001, 3, 25559081, 53},
        Size{"resnet18", 10, 3, 11181642, 20}, Size{"resnet50", 10, 3, 23528522, 53},
        Size{"resnet18-32", 10, 3, 11173962, 20}, Size{"resnet34-32", 10, 3, 21282122, 36},
        Size{"resnet50-32", 10, 3, 23520842, 53}, Size{"resnet18-32", 10, 1, 11172810, 20},
        Size{"resnet8", 10, 3, 75290, 7}, Size{"resnet14", 10, 3, 172506, 13},
        Size{"resnet20", 10, 3, 269722, 19}, Size{"resnet32", 10, 3, 464154, 31},
        Size{"resnet44", 10, 3, 658586, 43}, Size{"resnet56", 10, 3, 853018, 55},
        Size{"resnet110", 10, 3, 1727962, 109}, Size{"resnet8", 10, 1, 75002, 7},
        Size{"resnet20", 10, 1, 269434, 19}));

TEST(ModelSizes, OfTheTorchvisionModelsAreTheOnesReadThere) {
  const struct {
    const char* arch;
    size_t entries, tensors;
  } cases[] = {{"resnet18", 122, 62},
               {"resnet34", 218, 110},
               {"resnet50", 320, 161},
               {"resnet101", 626, 314},
               {"resnet152", 932, 467}};
  for (const auto& c : cases) {
    const auto sut =
        Network::plan({.arch = c.arch, .height = 33, .width = 33, .batch = 1, .training = false});
    ASSERT_TRUE(sut) << sut.error().message;
    EXPECT_EQ(sut->state().size(), c.entries) << c.arch;
    EXPECT_EQ(parameter_tensors(sut->state()), c.tensors) << c.arch;
  }
}

TEST(BottleneckBlock, HasItsStrideOnTheThreeByThree) {
  const auto graph =
      build_graph({.arch = "resnet50", .num_classes = 10, .height = 64, .width = 64, .batch = 2});
  ASSERT_TRUE(graph);
  const Block& block = graph->blocks[3];
  EXPECT_EQ(block.name, "layer2.0");
  EXPECT_EQ(block.units[0].shape.stride, 1);
  EXPECT_EQ(block.units[1].shape.stride, 2);
  EXPECT_EQ(block.units[1].shape.kernel, 3);
}

TEST(SmallImageStem, KeepsTheMapAndHasNoPooling) {
  const auto graph = build_graph(
      {.arch = "resnet18-32", .num_classes = 10, .height = 32, .width = 32, .batch = 2});
  ASSERT_TRUE(graph);
  EXPECT_FALSE(graph->pooled);
  EXPECT_EQ(graph->stem.shape.kernel, 3);
  EXPECT_EQ(graph->stem.shape.out_h(), 32);
  EXPECT_EQ(graph->feature_pixels, 16u);  // 4x4
  EXPECT_EQ(graph->features, 512);
}

TEST(ImageSize, AnyOfThemFitsEveryNetworkInEvaluation) {
  for (const std::string& arch : known_archs()) {
    for (const int side : {1, 2, 17, 28, 33, 224}) {
      EXPECT_TRUE(build_graph({.arch = arch,
                               .num_classes = 10,
                               .height = side,
                               .width = side + 1,
                               .batch = 1,
                               .training = false}))
          << arch << " " << side;
    }
  }
}

TEST(ImageSize, OutOfRangeIsNamed) {
  for (const int side : {0, -1, 8193, 2147483647}) {
    const auto graph = build_graph({.arch = "resnet18", .height = 32, .width = side});
    ASSERT_FALSE(graph) << side;
    EXPECT_EQ(graph.error().code, Code::kInvalidArgument);
    EXPECT_EQ(graph.error().message,
              "model: image width is " + std::to_string(side) + " pixels; expected 1 to 8192");
  }
}

}  // namespace
}  // namespace npu::model
