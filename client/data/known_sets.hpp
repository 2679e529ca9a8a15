// IDX sets that are known by digest. MNIST and Fashion-MNIST use the same file names and shapes, so
// only the content tells which of the two is in a folder.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "client/data/dataset.hpp"

namespace npu::data {

/// MD5 of the uncompressed files: train images, train labels, test images, test labels.
using SetDigest = std::array<std::string, 4>;

struct KnownSet {
  std::string_view name;
  std::array<std::string_view, 4> digest;
  float mean = 0.5F;
  float stddev = 0.5F;
};

/// The set all four digests belong to, or null.
[[nodiscard]] const KnownSet* find_known_set(const SetDigest& digest);

/// "Fashion-MNIST (digest ok)", or what is known about an unknown or mixed set. `folder` is
/// compared with the name: a folder called fashion that holds MNIST is said aloud.
[[nodiscard]] std::string describe_set(const SetDigest& digest, std::string_view folder);

}  // namespace npu::data
