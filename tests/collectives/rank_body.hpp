// What a semantic test does on one rank, independent of whether ranks are threads over one mapping
// (where ThreadSanitizer looks) or processes.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/api/communicator.hpp"

namespace npu::test {

struct Rank {
  client::Communicator& world;
  std::span<std::byte> arena;
  [[nodiscard]] uint32_t id() const { return world.rank(); }
  [[nodiscard]] uint32_t size() const { return world.size(); }
};

/// Empty when all is as expected, else what was not.
using Body = std::function<std::string(Rank&)>;

/// `numbers`: of the semantics in docs/design/007-collective-semantics.md that it shows.
struct Case {
  const char* name;
  const char* numbers;
  std::vector<uint32_t> worlds;
  Body body;
};

[[nodiscard]] std::vector<Case> data_cases();
[[nodiscard]] std::vector<Case> numerics_cases();
[[nodiscard]] std::vector<Case> ordering_cases();
[[nodiscard]] std::vector<Case> group_cases();
[[nodiscard]] std::vector<Case> pair_cases();
[[nodiscard]] std::vector<Case> error_cases();

[[nodiscard]] inline std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto part : {data_cases(), numerics_cases(), ordering_cases(), group_cases(), pair_cases(),
                    error_cases()}) {
    for (auto& c : part) all.push_back(std::move(c));
  }
  return all;
}

/// Leaves the body with place, condition and a printf-like remark.
#define EXPECT_RANK(condition, ...)                                                          \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      return fmt::format("{}:{}: rank {}: {} {}", __FILE__, __LINE__, rank.id(), #condition, \
                         fmt::format("" __VA_ARGS__));                                       \
    }                                                                                        \
  } while (0)

/// The error of an operation that was refused, at once or by wait(); empty if it worked.
[[nodiscard]] inline std::optional<Error> error_of(Result<client::Work> work) {
  if (!work) return work.error();
  auto result = work->wait();
  if (!result) return result.error();
  return std::nullopt;
}
[[nodiscard]] inline bool done(Result<client::Work> work) { return !error_of(std::move(work)); }
[[nodiscard]] inline bool says(const std::optional<Error>& error, Code code,
                               std::string_view text) {
  return error && error->code == code && error->message.find(text) != std::string::npos;
}

/// Buffers in the arena, one after the other, with guard bytes around each.
class Buffers {
 public:
  explicit Buffers(std::span<std::byte> arena) : arena_(arena) {}

  /// `shift` elements off a line.
  [[nodiscard]] std::byte* take(uint64_t bytes, uint64_t element, uint64_t shift = 0) {
    at_ = (at_ + 255) / 128 * 128;
    std::byte* p = arena_.data() + at_ + shift * element;
    at_ += shift * element + bytes;
    guard(p - kGuard, p, true);
    guard(p + bytes, p + bytes + kGuard, true);
    taken_.push_back({p, bytes});
    at_ += kGuard;
    return p;
  }
  [[nodiscard]] bool guards_hold() {
    for (const auto& [p, bytes] : taken_) {
      if (!guard(p - kGuard, p, false) || !guard(p + bytes, p + bytes + kGuard, false))
        return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kGuard = 64;
  static bool guard(std::byte* begin, std::byte* end, bool write) {
    bool holds = true;
    for (std::byte* p = begin; p != end; ++p) {
      if (write) *p = std::byte{0xa5};
      holds = holds && *p == std::byte{0xa5};
    }
    return holds;
  }
  std::span<std::byte> arena_;
  uint64_t at_ = 0;
  std::vector<std::pair<std::byte*, uint64_t>> taken_;
};

}  // namespace npu::test
