// The flags that stand for a job: those of PyTorch's main.py and of TensorFlow's ResNet script, and
// what becomes of each. Knows nothing of how a command line is parsed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::frontend {

enum class FlagFamily : uint8_t { kMainPy, kTf, kBoth };
enum class FlagKind : uint8_t { kValue, kSwitch, kOptionalValue };
enum class FlagEffect : uint8_t {
  kMapped,    // a key of the job, or a check
  kNoEffect,  // accepted; `why` says why nothing follows
  kRefused,   // `why` says what to do instead
};

struct FlagSpec {
  std::string_view name;       // "lr", without dashes: how translations ask for it
  std::string_view spellings;  // "--lr,--learning-rate"
  FlagFamily family = FlagFamily::kMainPy;
  FlagKind kind = FlagKind::kValue;
  FlagEffect effect = FlagEffect::kMapped;
  std::string_view about;  // kMapped: for --help; else why
};

/// Every flag of both families.
[[nodiscard]] std::span<const FlagSpec> flag_specs() noexcept;

/// What the user gave, as text. A switch holds "true" or "false".
class Given {
 public:
  void set(std::string_view name, std::string value) {
    values_[std::string(name)] = std::move(value);
  }
  [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  /// True when the switch is given and on.
  [[nodiscard]] bool on(std::string_view name) const;
  /// The flag's text, or `otherwise`.
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise = {}) const;

  /// As it was given if it is a number, `otherwise` if it was not given. Errors: invalid_argument,
  /// exit 64, naming flag and value.
  [[nodiscard]] Result<std::string> integer(std::string_view name,
                                            std::string_view otherwise) const;
  [[nodiscard]] Result<std::string> number(std::string_view name, std::string_view otherwise) const;

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& all() const noexcept {
    return values_;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// Refuses flags of the other family and those that are refused whatever their value; collects the
/// remarks of those without effect. `tf`: the job's profile. Errors: invalid_argument, exit 64.
[[nodiscard]] Result<std::vector<std::string>> check_flags(const Given& given, bool tf);

}  // namespace npu::frontend
