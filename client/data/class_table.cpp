#include "client/data/class_table.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace npu::data {
namespace {

constexpr size_t kShown = 12;

/// Of `a`, in its order, what is not in `b`.
std::vector<std::string> only_in(const ClassTable& a, const ClassTable& b) {
  const std::set<std::string> known(b.begin(), b.end());
  std::vector<std::string> out;
  std::ranges::copy_if(a, std::back_inserter(out),
                       [&](const std::string& name) { return !known.contains(name); });
  return out;
}

}  // namespace

std::string class_table_hash(const ClassTable& table) {
  if (table.empty()) return {};
  std::string all;
  for (const std::string& name : table) {
    all += name;
    all += '\0';
  }
  return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
}

std::string some_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string class_table_difference(const ClassTable& ours, const ClassTable& theirs) {
  if (ours == theirs) return {};
  const auto lacks = only_in(ours, theirs);
  const auto besides = only_in(theirs, ours);
  std::string text;
  if (!lacks.empty()) text = "lacks " + some_names(lacks);
  if (!besides.empty()) {
    text += fmt::format("{}has besides {}", text.empty() ? "" : "; ", some_names(besides));
  }
  if (!text.empty()) return text;
  const auto at = std::ranges::mismatch(ours, theirs);
  if (at.in1 == ours.end() || at.in2 == theirs.end()) return "repeats a name";
  return fmt::format("has the same names in another order: '{}' is label {} there, '{}' here",
                     *at.in2, at.in2 - theirs.begin(), *at.in1);
}

}  // namespace npu::data
