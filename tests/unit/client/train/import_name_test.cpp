#include "client/train/import_name.hpp"

#include <gtest/gtest.h>

namespace npu::client {
namespace {

TEST(ImportName, TorchvisionsNamesStay) {
  for (const char* name :
       {"conv1.weight", "bn1.running_var", "layer1.0.conv2.weight", "layer4.2.downsample.0.weight",
        "layer4.2.downsample.1.num_batches_tracked", "fc.weight", "fc.bias"}) {
    EXPECT_EQ(import_name(name), name);
  }
}

TEST(ImportName, WrapperOfDataParallelIsStripped) {
  EXPECT_EQ(import_name("module.conv1.weight"), "conv1.weight");
  EXPECT_EQ(import_name("module.layer3.5.bn2.bias"), "layer3.5.bn2.bias");
  EXPECT_EQ(import_name("module.module.conv1.weight"), "module.conv1.weight");
  EXPECT_EQ(import_name("modules.conv1.weight"), "modules.conv1.weight");
}

TEST(ImportName, ShortcutsAndClassifierOfPytorchCifarAreRenamed) {
  EXPECT_EQ(import_name("layer2.0.shortcut.0.weight"), "layer2.0.downsample.0.weight");
  EXPECT_EQ(import_name("layer2.0.shortcut.1.running_mean"), "layer2.0.downsample.1.running_mean");
  EXPECT_EQ(import_name("linear.weight"), "fc.weight");
  EXPECT_EQ(import_name("module.linear.bias"), "fc.bias");
  EXPECT_EQ(import_name("module.layer4.0.shortcut.0.weight"), "layer4.0.downsample.0.weight");
}

TEST(ImportName, NamesOfNobodyStay) {
  for (const char* name : {"", ".", "a..b", "linear2.weight", "layer1.0.linear.weight",
                           "shortcut.0.weight", "layer1.0.shortcuts.0.weight", "fc.weight."}) {
    EXPECT_EQ(import_name(name), name);
  }
}

}  // namespace
}  // namespace npu::client
