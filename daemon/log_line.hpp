// A log line on its way to a sink: words and fields in one text, escaped. Pure functions; see log.hpp.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace npu::daemon {

/// A key of [a-z0-9_] and its value. Texts may hold anything: they are escaped on the way.
class LogField {
 public:
  LogField(std::string_view key, std::string_view text) : key_(key), value_(text), text_(true) {}
  LogField(std::string_view key, const char* text) : LogField(key, std::string_view(text)) {}
  LogField(std::string_view key, const std::string& text)
      : LogField(key, std::string_view(text)) {}
  template <typename T>
    requires std::integral<T> && (!std::same_as<T, bool>)
  LogField(std::string_view key, T number) : key_(key), value_(std::to_string(number)) {}

  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] const std::string& value() const noexcept { return value_; }
  [[nodiscard]] bool is_text() const noexcept { return text_; }

 private:
  std::string_view key_;
  std::string value_;
  bool text_ = false;
};

/// What passes through spdlog: `what`, then each field behind a separator that no escaped text holds.
[[nodiscard]] std::string pack_line(std::string_view what, std::span<const LogField> fields);

/// As people read it: words key='text' key=1. Quotes in texts have a backslash, control characters and
/// bytes outside ASCII are \xNN, also in lines that were not made by pack_line.
[[nodiscard]] std::string line_text(std::string_view packed);

/// The fields alone, for a sink that keeps them apart: keys as the journal wants them ("NPU_UID"), texts
/// escaped but not quoted.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> line_fields(std::string_view packed);

}  // namespace npu::daemon
