// Multiply-adds against the counts that other tools publish for torchvision's networks.
#include "model/step_work.hpp"

#include <gtest/gtest.h>

namespace npu::model {
namespace {

TEST(StepWork, OfTorchvisionsNetworksIsWhatFvcoreCounts) {
  const auto resnet18 = step_work({.arch = "resnet18"});
  const auto resnet50 = step_work({.arch = "resnet50"});
  ASSERT_TRUE(resnet18 && resnet50);
  EXPECT_EQ(resnet18->forward_macs, 1'814'073'344U);
  EXPECT_EQ(resnet50->forward_macs, 4'089'184'256U);
  EXPECT_EQ(resnet50->stem_macs, uint64_t{112} * 112 * 64 * 7 * 7 * 3);
}

TEST(StepWork, OfAStepIsThreeForwardsWithoutTheImagesGradient) {
  const StepWork sut{.forward_macs = 100, .stem_macs = 7};
  EXPECT_EQ(sut.training_flops(), 2U * (300 - 7));
}

TEST(StepWork, RefusesWhatCannotBePlanned) {
  const auto unknown = step_work({.arch = "resnet99"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace npu::model
