#include "client/data/cifar_records.hpp"

#include <algorithm>

namespace npu::data {
namespace {

constexpr size_t kPlane = size_t{kCifarSide} * kCifarSide;
constexpr size_t kImage = 3 * kPlane;

void append_pixels(std::span<const uint8_t> planes, std::vector<uint8_t>& out) {
  const size_t at = out.size();
  out.resize(at + kImage);
  for (size_t i = 0; i < kPlane; ++i) {
    for (size_t c = 0; c < 3; ++c) out[at + 3 * i + c] = planes[c * kPlane + i];
  }
}

}  // namespace

Result<void> append_cifar(const std::string& path, std::span<const uint8_t> bytes,
                          const CifarRecords& layout, std::vector<uint8_t>& pixels,
                          std::vector<int32_t>& labels) {
  const size_t record = layout.label_bytes + kImage;
  if (bytes.size() != layout.records * record) {
    return fail(Code::kDataLoss,
                "read '{}': {} bytes where the format has {}; it is cut, or not the binary version",
                path, bytes.size(), layout.records * record);
  }
  for (size_t i = 0; i < layout.records; ++i) {
    const auto entry = bytes.subspan(i * record, record);
    const int32_t label = entry[layout.label_at];
    if (label >= layout.classes) {
      return fail(Code::kFailedPrecondition, "read '{}': label {} of record {} is outside 0..{}",
                  path, label, i, layout.classes - 1);
    }
    labels.push_back(label);
    append_pixels(entry.subspan(layout.label_bytes), pixels);
  }
  return {};
}

Result<ClassTable> parse_class_names(const std::string& path, std::string_view text, int classes) {
  ClassTable names;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty()) names.emplace_back(line);
  }
  if (names.empty() || names.size() == static_cast<size_t>(classes)) return names;
  return fail(Code::kFailedPrecondition, "read '{}': {} class names where {} are expected", path,
              names.size(), classes);
}

}  // namespace npu::data
