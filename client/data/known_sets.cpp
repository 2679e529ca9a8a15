// Digests are of the uncompressed content: distributions recompress the .gz files (Debian's differ
// from the originals byte by byte), the content stays.
#include "client/data/known_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace npu::data {
namespace {

// Means and deviations of the training pixels scaled to 0..1, four digits as commonly published.
constexpr std::array<KnownSet, 2> kSets = {{
    {"Fashion-MNIST",
     {"f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9",
      "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"},
     0.2860F,
     0.3530F},
    {"MNIST",
     {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
      "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"},
     0.1307F,
     0.3081F},
}};

constexpr std::array<std::string_view, 4> kPart = {"train images", "train labels", "test images",
                                                   "test labels"};

}  // namespace

const KnownSet* find_known_set(const SetDigest& digest) {
  for (const KnownSet& set : kSets) {
    if (std::equal(digest.begin(), digest.end(), set.digest.begin())) return &set;
  }
  return nullptr;
}

std::string describe_set(const SetDigest& digest, std::string_view folder) {
  if (const KnownSet* set = find_known_set(digest)) {
    std::string lower(folder);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool misnamed = set->name == "MNIST" && lower.find("fashion") != std::string::npos;
    return fmt::format("{} (digest ok{})", set->name,
                       misnamed ? "; not Fashion-MNIST, whatever the folder is called" : "");
  }
  for (const KnownSet& set : kSets) {
    std::string different;
    size_t same = 0;
    for (size_t i = 0; i < digest.size(); ++i) {
      if (digest[i] == set.digest[i]) {
        ++same;
      } else {
        different += fmt::format("{}{}", different.empty() ? "" : ", ", kPart[i]);
      }
    }
    if (same > 0)
      return fmt::format("unknown set (like {}, but different {})", set.name, different);
  }
  return "unknown set";
}

}  // namespace npu::data
