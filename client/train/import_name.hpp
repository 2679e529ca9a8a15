// Names of tensors in files that other programs wrote.
#pragma once

#include <string>
#include <string_view>

namespace npu::client {

/// torchvision's name for the tensor that a file calls `name`: without the "module." of
/// DataParallel, and with pytorch-cifar's "shortcut" and "linear" as "downsample" and "fc". A name
/// of torchvision's, or of nobody's, stays as it is.
[[nodiscard]] std::string import_name(std::string_view name);

}  // namespace npu::client
