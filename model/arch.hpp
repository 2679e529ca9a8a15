// The ResNets that can be built, as data: which blocks, widths and shortcuts each name stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::model {

enum class Stem : uint8_t {
  kCifar,     // 3x3 convolution, no pooling
  kImagenet,  // 7x7/2 convolution, 3x3/2 max pooling
};

enum class Shortcut : uint8_t {
  kOptionA,     // every second pixel, zero channels on both sides; no parameters
  kProjection,  // 1x1 convolution + BN where the shape changes
};

struct Arch {
  std::string name;
  Stem stem = Stem::kImagenet;
  Shortcut shortcut = Shortcut::kProjection;
  bool bottleneck = false;  // 1x1, 3x3 (carries the stride), 1x1 times four; else 3x3, 3x3
  std::vector<int> blocks;  // blocks a stage
  int first_width = 64;     // doubles each stage

  [[nodiscard]] int expansion() const noexcept { return bottleneck ? 4 : 1; }
};

/// Names that `find_arch` knows, in the order to show them.
[[nodiscard]] std::vector<std::string> known_archs();

/// Errors: not_found listing the known names.
/// Source: resnet18..152 as torchvision (v1.5: stride on the 3x3); resnet8..110 as He et al.
/// 2015, 4.2, option A; resnet18-32, -34-32, -50-32 as kuangliu/pytorch-cifar: torchvision's
/// stages behind a 3x3 stem without pooling, under torchvision's names.
[[nodiscard]] Result<Arch> find_arch(std::string_view name);

}  // namespace npu::model
