// The table of architectures.
#include "model/arch.hpp"

#include <fmt/format.h>

namespace npu::model {
namespace {

Arch cifar(int depth) {
  const int blocks = (depth - 2) / 6;
  return {.name = fmt::format("resnet{}", depth),
          .stem = Stem::kCifar,
          .shortcut = Shortcut::kOptionA,
          .bottleneck = false,
          .blocks = {blocks, blocks, blocks},
          .first_width = 16};
}

Arch imagenet(int depth, bool bottleneck, std::vector<int> blocks) {
  return {.name = fmt::format("resnet{}", depth),
          .stem = Stem::kImagenet,
          .shortcut = Shortcut::kProjection,
          .bottleneck = bottleneck,
          .blocks = std::move(blocks),
          .first_width = 64};
}

/// The ImageNet stages behind a stem that keeps 32x32 maps as they are.
Arch small_images(Arch arch) {
  arch.name += "-32";
  arch.stem = Stem::kCifar;
  return arch;
}

std::vector<Arch> table() {
  const Arch resnet18 = imagenet(18, false, {2, 2, 2, 2});
  const Arch resnet34 = imagenet(34, false, {3, 4, 6, 3});
  const Arch resnet50 = imagenet(50, true, {3, 4, 6, 3});
  return {cifar(8),
          cifar(14),
          resnet18,
          small_images(resnet18),
          cifar(20),
          cifar(32),
          resnet34,
          small_images(resnet34),
          cifar(44),
          resnet50,
          small_images(resnet50),
          cifar(56),
          imagenet(101, true, {3, 4, 23, 3}),
          cifar(110),
          imagenet(152, true, {3, 8, 36, 3})};
}

}  // namespace

std::vector<std::string> known_archs() {
  std::vector<std::string> names;
  for (Arch& arch : table()) {
    names.push_back(std::move(arch.name));
  }
  return names;
}

Result<Arch> find_arch(std::string_view name) {
  for (Arch& arch : table()) {
    if (arch.name == name) return std::move(arch);
  }
  return fail(Code::kNotFound, "model arch `{}` is not known; choose one of {}", name,
              fmt::join(known_archs(), ", "));
}

}  // namespace npu::model
