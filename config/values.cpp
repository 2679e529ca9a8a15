// Text to value for every slot type of the field table.
// Stricter than YAML where YAML surprises: no octal, no yes/no, no quoted numbers, nothing
// non-finite.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/quotas.hpp"
#include "config/schema.hpp"
#include "config/value_text.hpp"
#include "shm/base/units.hpp"

namespace npu::config {
namespace {

class Assigner {
 public:
  Assigner(const Field& field, const Node& node, Diagnostics& out)
      : field_(field), node_(node), out_(out) {}

  void operator()(bool* slot) const {
    if (is_plain("true") || is_plain("True") || is_plain("TRUE")) {
      *slot = true;
    } else if (is_plain("false") || is_plain("False") || is_plain("FALSE")) {
      *slot = false;
    } else {
      constexpr std::array<std::string_view, 4> kYes = {"yes", "on", "y", "1"};
      constexpr std::array<std::string_view, 4> kNo = {"no", "off", "n", "0"};
      constexpr std::array<std::string_view, 2> kBoth = {"true", "false"};
      std::string_view near = closest(node_.text, kBoth);
      if (std::ranges::find(kYes, node_.text) != kYes.end()) near = "true";
      if (std::ranges::find(kNo, node_.text) != kNo.end()) near = "false";
      report("expected true or false, got " + describe(node_), did_you_mean(near));
    }
  }

  void operator()(int* slot) const {
    if (const auto value = integer<int64_t>()) *slot = static_cast<int>(*value);
  }
  void operator()(int64_t* slot) const {
    if (const auto value = integer<int64_t>()) *slot = *value;
  }
  void operator()(uint64_t* slot) const {
    if (const auto value = integer<uint64_t>()) *slot = *value;
  }
  void operator()(std::optional<int64_t>* slot) const {
    if (node_.kind == Node::Kind::kNull) {
      slot->reset();
    } else if (const auto value = integer<int64_t>()) {
      *slot = *value;
    }
  }

  void operator()(double* slot) const {
    if (const auto value = real()) *slot = *value;
  }

  void operator()(std::string* slot) const {
    if (node_.kind != Node::Kind::kScalar) return wrong_type();
    if (!field_.choices.empty() &&
        std::ranges::find(field_.choices, node_.text) == field_.choices.end()) {
      return unknown_value(field_.choices);
    }
    *slot = node_.text;
  }

  void operator()(std::optional<std::string>* slot) const {
    if (node_.kind == Node::Kind::kNull) {
      slot->reset();
    } else if (node_.kind != Node::Kind::kScalar || node_.text.empty()) {
      wrong_type();
    } else {
      *slot = node_.text;
    }
  }

  void operator()(EnumSlot slot) const {
    if (node_.kind != Node::Kind::kScalar) return wrong_type();
    const auto it = std::ranges::find(field_.choices, node_.text);
    if (it == field_.choices.end()) return unknown_value(field_.choices);
    *slot.value = static_cast<uint8_t>(it - field_.choices.begin());
  }

  void operator()(NameSlot slot) const {
    if (node_.kind != Node::Kind::kScalar) return wrong_type();
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    };
    const std::string& text = node_.text;
    if (text.empty() || text.size() > 64 || !std::ranges::all_of(text, allowed) ||
        text.front() == '.' || text.front() == '-') {
      return report(
          fmt::format("{} cannot name a run; use 1 to 64 of a-z 0-9 . _ - beginning with "
                      "a letter or digit (it becomes a directory)",
                      quoted(text)));
    }
    *slot.value = text;
  }

  void operator()(BytesSlot slot) const {
    if (node_.kind != Node::Kind::kScalar) return wrong_type();
    const auto bytes = parse_bytes(node_.text);
    if (!bytes) return report(bytes.error().message);
    if (!in_range(static_cast<double>(*bytes))) return out_of_range(bytes_bound);
    *slot.value = *bytes;
  }

  void operator()(std::chrono::milliseconds* slot) const {
    if (node_.kind != Node::Kind::kScalar) return wrong_type();
    const auto time = parse_duration(node_.text);
    if (!time) return report(time.error().message);
    if (time->count() != 0 && !in_range(static_cast<double>(time->count()))) {
      return report(fmt::format("{} is out of range; expected 0 (never) or {}", quoted(node_.text),
                                expected_range(field_.range, duration_bound)));
    }
    *slot = *time;
  }

  void operator()(std::vector<int>* slot) const {
    assign_list(slot, [](const Assigner& item) -> std::optional<int> {
      const auto value = item.integer<int64_t>();
      return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
    });
  }
  void operator()(std::vector<double>* slot) const {
    assign_list(slot, [](const Assigner& item) { return item.real(); });
  }
  void operator()(std::vector<std::string>* slot) const {
    assign_list(slot, [](const Assigner& item) -> std::optional<std::string> {
      std::string word;
      item(&word);
      return word.empty() ? std::nullopt : std::optional(word);
    });
  }

  void operator()(LossScaleSlot slot) const {
    if (is_plain("dynamic") || is_plain("-1") || is_plain("-1.0")) {
      *slot.value = 0;
      return;
    }
    if (node_.kind != Node::Kind::kScalar || node_.quoted) return wrong_type();
    const auto parsed = parse_number<double>(node_.text);
    if (parsed.problem == Parsed<double>::Problem::kNotANumber) {
      constexpr std::array<std::string_view, 1> kWord = {"dynamic"};
      return report(
          fmt::format("unknown value {}; a number above 0 or 'dynamic'", quoted(node_.text)),
          did_you_mean(closest(node_.text, kWord)));
    }
    if (const auto value = real()) *slot.value = *value;
  }

  void operator()(ResumeSlot slot) const {
    if (node_.kind != Node::Kind::kScalar || node_.text.empty()) return wrong_type();
    constexpr std::array<std::string_view, 3> kWords = {"auto", "never", "best"};  // as ResumeKind
    if (const auto word = std::ranges::find(kWords, node_.text); word != kWords.end()) {
      *slot.kind = static_cast<ResumeKind>(word - kWords.begin());
      slot.path->clear();
    } else if (node_.text.find('/') == std::string::npos) {
      // Without this rule a misspelt 'auto' would be a path.
      report(fmt::format("unknown value {}; one of: auto, best, never, or a path with a '/' in it",
                         quoted(node_.text)),
             did_you_mean(closest(node_.text, kWords)));
    } else {
      *slot.kind = ResumeKind::kPath;
      *slot.path = node_.text;
    }
  }

  void operator()(DevicesSlot slot) const {
    if (node_.kind != Node::Kind::kList && node_.kind != Node::Kind::kScalar) return wrong_type();
    if (auto ids = read_devices(field_, node_, out_)) *slot.value = std::move(*ids);
  }

  void operator()(UserQuotasSlot slot) const {
    assign_user_quotas(field_, node_, *slot.value, out_);
  }

 private:
  /// Each item by `read`, which has reported what it refuses; then the slot stays as it was.
  template <typename T, typename Read>
  void assign_list(std::vector<T>* slot, const Read& read) const {
    if (node_.kind != Node::Kind::kList) return wrong_type();
    std::vector<T> values;
    for (const Node& item : node_.items) {
      auto value = read(Assigner(field_, item, out_));
      if (!value) return;
      values.push_back(std::move(*value));
    }
    *slot = std::move(values);
  }

  [[nodiscard]] bool is_plain(std::string_view word) const {
    return node_.kind == Node::Kind::kScalar && !node_.quoted && node_.text == word;
  }

  void report(const std::string& message, std::string hint = {}) const {
    out_.add(node_.place, fmt::format("{}: {}", field_.path, message), std::move(hint));
  }

  static std::string did_you_mean(std::string_view word) {
    return word.empty() ? std::string{} : fmt::format("did you mean '{}'?", word);
  }

  void wrong_type() const {
    report(fmt::format("expected {}, got {}", type_text(field_), describe(node_)));
  }

  void unknown_value(std::span<const std::string_view> names) const {
    report(fmt::format("unknown value {}; one of: {}", quoted(node_.text), join(names)),
           did_you_mean(closest(node_.text, names)));
  }

  void out_of_range(std::string (*show)(double)) const {
    report(fmt::format("{} is out of range; expected {}", quoted(node_.text),
                       expected_range(field_.range, show)));
  }

  [[nodiscard]] bool in_range(double value) const {
    const Range& range = field_.range;
    return value <= range.max && (range.above_min ? value > range.min : value >= range.min);
  }

  // The whole range of uint64 stands when the table gives none (seed).
  template <typename T>
  [[nodiscard]] std::optional<T> integer() const {
    using Problem = typename Parsed<T>::Problem;
    if (node_.kind != Node::Kind::kScalar || node_.quoted) {
      wrong_type();
      return std::nullopt;
    }
    const auto parsed = parse_number<T>(node_.text);
    if (parsed.problem == Problem::kNotANumber) {
      wrong_type();
      return std::nullopt;
    }
    if (parsed.problem == Problem::kLeadingZero) {
      report(fmt::format("{} has a leading zero, which YAML may read as octal; write it without",
                         quoted(node_.text)));
      return std::nullopt;
    }
    const bool bounded = field_.range.max > field_.range.min;
    if (parsed.problem == Problem::kTooLarge ||
        (bounded && !in_range(static_cast<double>(parsed.value)))) {
      if (bounded) {
        out_of_range(number_text);
      } else {
        report(fmt::format("{} does not fit in 64 bits", quoted(node_.text)));
      }
      return std::nullopt;
    }
    return parsed.value;
  }

  [[nodiscard]] std::optional<double> real() const {
    if (node_.kind != Node::Kind::kScalar || node_.quoted) {
      wrong_type();
      return std::nullopt;
    }
    constexpr std::array<std::string_view, 12> kYamlNonFinite = {".inf",  ".Inf",  ".INF",  "+.inf",
                                                                 "+.Inf", "+.INF", "-.inf", "-.Inf",
                                                                 "-.INF", ".nan",  ".NaN",  ".NAN"};
    const auto parsed = parse_number<double>(node_.text);
    const bool spelled = std::ranges::find(kYamlNonFinite, node_.text) != kYamlNonFinite.end();
    if (parsed.problem == Parsed<double>::Problem::kNotANumber && !spelled) {
      wrong_type();
      return std::nullopt;
    }
    if (spelled || !std::isfinite(parsed.value)) {
      report(fmt::format("{} is not finite; expected a number {}", quoted(node_.text),
                         expected_range(field_.range, number_text)));
      return std::nullopt;
    }
    if (parsed.problem == Parsed<double>::Problem::kTooLarge || !in_range(parsed.value)) {
      out_of_range(number_text);
      return std::nullopt;
    }
    return parsed.value;
  }

  const Field& field_;
  const Node& node_;
  Diagnostics& out_;
};

}  // namespace

void assign(const Field& field, const Node& value, Diagnostics& out) {
  std::visit(Assigner(field, value, out), field.slot);
}

}  // namespace npu::config
