#include "daemon/checkpoint/names.hpp"

#include <charconv>

#include "daemon/checkpoint/store.hpp"
#include "shm/format/digest.hpp"

namespace npu::daemon {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTempMark = ".tmp-";
constexpr std::string_view kAsideMark = ".old-";

std::optional<uint64_t> parse_decimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The part before `mark` when a nonce follows it.
std::optional<std::string_view> base_of(std::string_view name, std::string_view mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string_view::npos || !parse_hex64(name.substr(at + mark.size()))) {
    return std::nullopt;
  }
  return name.substr(0, at);
}

}  // namespace

std::string step_name(uint64_t step) { return std::string(kStepPrefix) + std::to_string(step); }

std::optional<uint64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  return parse_decimal(name.substr(kStepPrefix.size()));
}

std::string temp_name(std::string_view base, uint64_t nonce) {
  return std::string(base) + std::string(kTempMark) + to_hex(nonce);
}

bool is_temp_name(std::string_view name) {
  const auto base = base_of(name, kTempMark);
  return base && (*base == kLatestFile || *base == kBestFile || parse_step_name(*base));
}

std::string aside_name(std::string_view base, uint64_t nonce) {
  return std::string(base) + std::string(kAsideMark) + to_hex(nonce);
}

std::optional<std::string> parse_aside_name(std::string_view name) {
  const auto base = base_of(name, kAsideMark);
  if (!base || !parse_step_name(*base)) return std::nullopt;
  return std::string(*base);
}

bool is_uid_name(std::string_view name) {
  const auto value = parse_decimal(name);
  return value && *value <= UINT32_MAX;
}

}  // namespace npu::daemon
