// A YAML document as a plain tree that remembers where everything was written.
// Deliberately smaller than YAML: one document, no anchors, aliases or tags, at most 16 levels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.hpp"

namespace npu::config {

inline constexpr uint64_t kMaxFileBytes = 1 << 20;
inline constexpr size_t kMaxDepth = 16;

struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;  // scalar in quotes: text whatever it looks like
  std::string text;     // scalar
  Place place;
  std::vector<Node> keys;   // map: keys[i] belongs to items[i]; duplicates are kept
  std::vector<Node> items;  // map values or list items
};

/// Parses `text`; whatever does not fit goes to `out` with its position. `source` marks the places.
/// Returns false when the text is not YAML at all, then `root` is unspecified.
/// Cost: linear; nesting is refused at kMaxDepth and nothing is expanded.
[[nodiscard]] bool parse_yaml(std::string_view text, int source, Node& root, Diagnostics& out);

}  // namespace npu::config
