// Values back to text: for `config print`, for messages and for the schema listing.
// Everything printed here reads back to the same bits.
#include "config/value_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config/load.hpp"
#include "config/quotas.hpp"

namespace npu::config {

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a mapping";
    case Node::Kind::kScalar:
      break;
  }
  return node.quoted ? "the quoted text " + quoted(node.text) : quoted(node.text);
}

std::string number_text(double value) {
  // Whole numbers of the tables print without exponent: 1048576, not 1.048576e+06.
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{}", value);
}

std::string join(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string expected_range(const Range& range, std::string (*show)(double)) {
  return range.above_min ? fmt::format("more than {}, at most {}", show(range.min), show(range.max))
                         : fmt::format("{}..{}", show(range.min), show(range.max));
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 3> kUnits = {"KiB", "MiB", "GiB"};
  std::string_view unit;
  for (const std::string_view name : kUnits) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    unit = name;
  }
  return fmt::format("{}{}", bytes, unit);
}

std::string duration_text(std::chrono::milliseconds time) {
  const int64_t ms = time.count();
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{}ms", ms);
}

std::string bytes_bound(double bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }
std::string duration_bound(double ms) {
  return duration_text(std::chrono::milliseconds(static_cast<int64_t>(ms)));
}

namespace {

bool plain_is_safe(std::string_view text) {
  constexpr std::array<std::string_view, 6> kWords = {"null", "Null", "NULL", "~", "true", "false"};
  if (text.empty() || std::ranges::find(kWords, text) != kWords.end()) return false;
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-';
  };
  return text.front() != '-' && text.front() != '.' && std::ranges::all_of(text, safe);
}

}  // namespace

std::string yaml_scalar(std::string_view text) {
  if (plain_is_safe(text)) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

namespace {

class Printer {
 public:
  explicit Printer(const Field& field) : field_(field) {}

  std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
  std::string operator()(const int* v) const { return fmt::format("{}", *v); }
  std::string operator()(const int64_t* v) const { return fmt::format("{}", *v); }
  std::string operator()(const uint64_t* v) const { return fmt::format("{}", *v); }
  std::string operator()(const double* v) const { return fmt::format("{}", *v); }
  std::string operator()(const std::string* v) const { return yaml_scalar(*v); }
  std::string operator()(const std::optional<int64_t>* v) const {
    return *v ? fmt::format("{}", **v) : "null";
  }
  std::string operator()(const std::optional<std::string>* v) const {
    return *v ? yaml_scalar(**v) : "null";
  }
  std::string operator()(const std::vector<int>* v) const {
    return fmt::format("[{}]", fmt::join(*v, ", "));
  }
  std::string operator()(const std::vector<double>* v) const {
    return fmt::format("[{}]", fmt::join(*v, ", "));
  }
  std::string operator()(const std::vector<std::string>* v) const {
    return fmt::format("[{}]", fmt::join(*v, ", "));  // a closed set of words, none needs quotes
  }
  std::string operator()(const std::chrono::milliseconds* v) const { return duration_text(*v); }
  std::string operator()(EnumSlot v) const {
    return *v.value < field_.choices.size() ? std::string(field_.choices[*v.value]) : "?";
  }
  std::string operator()(NameSlot v) const { return yaml_scalar(*v.value); }
  std::string operator()(BytesSlot v) const { return bytes_text(*v.value); }
  std::string operator()(DevicesSlot v) const {
    return fmt::format("[{}]", fmt::join(*v.value, ", "));
  }
  std::string operator()(UserQuotasSlot v) const { return user_quotas_text(*v.value); }
  std::string operator()(LossScaleSlot v) const {
    return *v.value == 0 ? "dynamic" : fmt::format("{}", *v.value);
  }
  std::string operator()(ResumeSlot v) const {
    if (*v.kind == ResumeKind::kPath) return yaml_scalar(*v.path);
    if (*v.kind == ResumeKind::kBest) return "best";
    return *v.kind == ResumeKind::kAuto ? "auto" : "never";
  }

 private:
  const Field& field_;
};

class TypeNamer {
 public:
  explicit TypeNamer(const Field& field) : field_(field) {}

  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const int*) const { return "an integer " + range(number_text); }
  std::string operator()(const int64_t*) const { return "an integer " + range(number_text); }
  std::string operator()(const uint64_t*) const {
    const bool bounded = field_.range.max > field_.range.min;
    return "an integer " + (bounded ? range(number_text) : std::string("0..2^64-1"));
  }
  std::string operator()(const double*) const { return "a number " + range(number_text); }
  std::string operator()(const std::string*) const {
    return field_.choices.empty() ? "text" : "one of: " + join(field_.choices);
  }
  std::string operator()(const std::optional<int64_t>*) const {
    return "null or an integer " + range(number_text);
  }
  std::string operator()(const std::optional<std::string>*) const { return "null or a path"; }
  std::string operator()(const std::vector<int>*) const {
    return "a list of integers " + range(number_text);
  }
  std::string operator()(const std::vector<double>*) const {
    return "a list of numbers " + range(number_text);
  }
  std::string operator()(const std::vector<std::string>*) const {
    return "a list of: " + join(field_.choices);
  }
  std::string operator()(const std::chrono::milliseconds*) const {
    return "a duration such as 60s, 0 (never) or " + range(duration_bound);
  }
  std::string operator()(EnumSlot) const { return "one of: " + join(field_.choices); }
  std::string operator()(NameSlot) const { return "a name of a-z 0-9 . _ -, 1 to 64 long"; }
  std::string operator()(BytesSlot) const { return "a size such as 4MiB, " + range(bytes_bound); }
  std::string operator()(DevicesSlot) const {
    return "device ids 0..7 as a list, a range 0-7 or 0,1,2";
  }
  std::string operator()(UserQuotasSlot) const {
    return "users by name or uid, each with keys of this section";
  }
  std::string operator()(LossScaleSlot) const {
    return "a number " + range(number_text) + ", or dynamic (-1 means dynamic)";
  }
  std::string operator()(ResumeSlot) const { return "auto, best, never or a path"; }

 private:
  std::string range(std::string (*show)(double)) const {
    return expected_range(field_.range, show);
  }

  const Field& field_;
};

}  // namespace

std::string value_text(const Field& field) { return std::visit(Printer(field), field.slot); }

std::string type_text(const Field& field) { return std::visit(TypeNamer(field), field.slot); }

}  // namespace npu::config
