// Small pieces shared by the readers and printers of values: how numbers, sizes and times are
// spelled. Internal to config/.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/schema.hpp"

namespace npu::config {

template <typename T>
struct Parsed {
  T value{};
  enum class Problem : uint8_t { kNone, kNotANumber, kTooLarge, kLeadingZero } problem{};
};

template <typename T>
Parsed<T> parse_number(std::string_view text) {
  using Problem = typename Parsed<T>::Problem;
  Parsed<T> out;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out.value);
  if (ec == std::errc::result_out_of_range) {
    out.problem = Problem::kTooLarge;
  } else if (ec != std::errc{} || end != text.data() + text.size()) {
    out.problem = Problem::kNotANumber;
  }
  if constexpr (std::is_integral_v<T>) {
    const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
    if (out.problem == Problem::kNone && digits.size() > 1 && digits.front() == '0') {
      out.problem = Problem::kLeadingZero;
    }
  }
  return out;
}

/// "'x'", "the quoted text 'x'", "a list", ...
[[nodiscard]] std::string describe(const Node& node);

/// "a, b, c".
[[nodiscard]] std::string join(std::span<const std::string_view> names);

[[nodiscard]] std::string number_text(double value);
[[nodiscard]] std::string bytes_text(uint64_t bytes);                     // 4MiB
[[nodiscard]] std::string duration_text(std::chrono::milliseconds time);  // 60s
[[nodiscard]] std::string bytes_bound(double bytes);
[[nodiscard]] std::string duration_bound(double ms);

/// "1..100", or "more than 0, at most 100"; `show` spells the bounds.
[[nodiscard]] std::string expected_range(const Range& range, std::string (*show)(double));

/// "0-7", "0,1,2" or a list, as ascending ids: rank i runs on the i-th smallest. Every bad token is
/// named in `out`; then nothing is returned. Blanks around tokens are ignored.
[[nodiscard]] std::optional<std::vector<int>> read_devices(const Field& field, const Node& node,
                                                           Diagnostics& out);

}  // namespace npu::config
