#include "shm/base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace npu {
namespace {

struct Number {
  double value;
  std::string_view suffix;
};

Result<Number> split_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || !std::isfinite(value) || value < 0) {
    return fail(Code::kInvalidArgument, "'{}' is not a {}", text, what);
  }
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  return Number{value, suffix};
}

struct Unit {
  std::string_view name;
  double factor;
};

template <size_t N>
Result<double> apply_unit(const Number& number, const std::array<Unit, N>& units,
                          std::string_view text, std::string_view forms) {
  for (const Unit& unit : units) {
    if (unit.name == number.suffix) return number.value * unit.factor;
  }
  return fail(Code::kInvalidArgument, "'{}': unknown unit '{}'; write {}", text, number.suffix,
              forms);
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr double k = 1024;
  static constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                                   {"B", 1},
                                                   {"K", k},
                                                   {"KiB", k},
                                                   {"M", k * k},
                                                   {"MiB", k * k},
                                                   {"G", k * k * k},
                                                   {"GiB", k * k * k},
                                                   {"T", k * k * k * k},
                                                   {"TiB", k * k * k * k},
                                                   {"kB", 1e3},
                                                   {"MB", 1e6},
                                                   {"GB", 1e9},
                                                   {"TB", 1e12}}};
  NPU_TRY(const Number number, split_number(text, "size such as 4MiB"));
  NPU_TRY(const double bytes, apply_unit(number, kUnits, text, "512, 64KiB, 4MiB or 1GiB"));
  if (bytes >= 9.2e18) return fail(Code::kInvalidArgument, "'{}' is larger than 8 EiB", text);
  return static_cast<uint64_t>(std::llround(bytes));
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 5> kUnits = {
      {{"", 1e3}, {"s", 1e3}, {"ms", 1}, {"m", 60e3}, {"h", 3600e3}}};
  NPU_TRY(const Number number, split_number(text, "duration such as 60s"));
  NPU_TRY(const double ms, apply_unit(number, kUnits, text, "500ms, 60s, 2m or 1h"));
  if (ms > 1e12) return fail(Code::kInvalidArgument, "'{}' is longer than 30 years", text);
  return std::chrono::milliseconds(std::llround(ms));
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t i = 0;
  while (value >= 1024 && i + 1 < kNames.size()) {
    value /= 1024;
    ++i;
  }
  return i == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[i]);
}

}  // namespace npu
