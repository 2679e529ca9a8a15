// The device list: which of the eight emulated devices a job runs on, one rank each.
#include <fmt/format.h>

#include <algorithm>

#include "config/value_text.hpp"

namespace npu::config {
namespace {

constexpr int kDeviceCount = 8;
using Problem = Parsed<int>::Problem;

bool is_id(const Parsed<int>& id) {
  return id.problem == Problem::kNone || id.problem == Problem::kTooLarge;
}

bool outside(const Parsed<int>& id) {
  return id.problem != Problem::kNone || id.value < 0 || id.value >= kDeviceCount;
}

std::string_view trim(std::string_view token) {
  while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
  while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
  return token;
}

class DeviceReader {
 public:
  DeviceReader(std::string_view path, Diagnostics& out) : path_(path), out_(out) {}

  void token(std::string_view text, Place place) {
    const std::string_view token = trim(text);
    if (token.empty()) {
      return refuse(place, "an empty item; expected ids 0..7 such as 0,1,2");
    }
    const size_t dash = token.find('-', 1);  // from 1: a minus sign is no range
    const auto first = parse_number<int>(token.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_number<int>(token.substr(dash + 1));
    if (!is_id(first) || !is_id(last)) {
      return refuse(place, fmt::format("{} is not a device id; expected 0..7", quoted(token)));
    }
    if (outside(first) || outside(last)) {
      return refuse(place, fmt::format("{} is outside 0..7", quoted(token)),
                    token == "8" ? "ids, not a count: write 0-7 for all eight" : "");
    }
    if (first.value > last.value) {
      return refuse(place, fmt::format("the range {} runs backwards", quoted(token)));
    }
    for (int id = first.value; id <= last.value; ++id) {
      if (std::ranges::find(ids_, id) != ids_.end()) {
        refuse(place, fmt::format("device {} is given twice (by {})", id, quoted(token)));
      } else {
        ids_.push_back(id);
      }
    }
  }

  void refuse(Place place, std::string_view why, std::string hint = {}) {
    out_.add(place, fmt::format("{}: {}", path_, why), std::move(hint));
    good_ = false;
  }

  [[nodiscard]] std::optional<std::vector<int>> take() {
    if (!good_) return std::nullopt;
    std::ranges::sort(ids_);
    return std::move(ids_);
  }

 private:
  std::string_view path_;
  Diagnostics& out_;
  std::vector<int> ids_;
  bool good_ = true;
};

}  // namespace

std::optional<std::vector<int>> read_devices(const Field& field, const Node& node,
                                             Diagnostics& out) {
  DeviceReader reader(field.path, out);
  if (node.kind == Node::Kind::kList) {
    for (const Node& item : node.items) {
      if (item.kind == Node::Kind::kScalar) {
        reader.token(item.text, item.place);
      } else {
        reader.refuse(item.place, "expected a device id, got " + describe(item));
      }
    }
    if (node.items.empty()) reader.refuse(node.place, "no device; expected ids 0..7 such as 0-7");
    return reader.take();
  }
  std::string_view rest = node.text;
  while (true) {
    const size_t comma = rest.find(',');
    reader.token(rest.substr(0, comma), node.place);
    if (comma == std::string_view::npos) return reader.take();
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace npu::config
