#include "client/train/import_name.hpp"

namespace npu::client {
namespace {

constexpr std::string_view kWrapper = "module.";

std::string_view import_part(std::string_view part, bool first) {
  if (part == "linear" && first) return "fc";
  // In a block only: "layer1.0.shortcut.0.weight".
  if (part == "shortcut" && !first) return "downsample";
  return part;
}

}  // namespace

std::string import_name(std::string_view name) {
  if (name.starts_with(kWrapper)) name.remove_prefix(kWrapper.size());
  std::string out;
  for (bool first = true;; first = false) {
    const size_t dot = name.find('.');
    out += import_part(name.substr(0, dot), first);
    if (dot == std::string_view::npos) return out;
    out += '.';
    name.remove_prefix(dot + 1);
  }
}

}  // namespace npu::client
