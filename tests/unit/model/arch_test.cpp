#include "model/arch.hpp"

#include <gtest/gtest.h>

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
  size_t entries;  // 0: not checked
};

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
  if (want.entries != 0) {
    EXPECT_EQ(sut->state().size(), want.entries);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Reference, ModelSize,
    testing::Values(
        Size{"resnet18", 1000, 3, 11689512, 122}, Size{"resnet34", 1000, 3, 21797672, 218},
        Size{"resnet50", 1000, 3, 25557032, 320}, Size{"resnet101", 1000, 3, 44549160, 626},
        Size{"resnet152", 1000, 3, 60192808, 932}, Size{"resnet50", 1001, 3, 25559081, 0},
        Size{"resnet18", 10, 3, 11181642, 0}, Size{"resnet8", 10, 3, 75290, 0},
        Size{"resnet14", 10, 3, 172506, 0}, Size{"resnet20", 10, 3, 269722, 0},
        Size{"resnet32", 10, 3, 464154, 0}, Size{"resnet44", 10, 3, 658586, 0},
        Size{"resnet56", 10, 3, 853018, 0}, Size{"resnet110", 10, 3, 1727962, 0},
        Size{"resnet8", 10, 1, 75002, 0}, Size{"resnet20", 10, 1, 269434, 0}));

}  // namespace
}  // namespace npu::model
