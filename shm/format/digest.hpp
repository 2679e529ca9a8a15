// XXH3 digests of bytes, one-shot and incremental, and their hex form.
// They detect damage and torn copies; they are no defence against someone who forges both data and
// digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace npu {

/// A 128-bit digest; `high` is printed first.
struct Digest128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Digest128&, const Digest128&) = default;
};

/// Incremental XXH3: feed pieces in order, read either width at any point. A piecewise digest
/// equals the one-shot digest of the concatenation. Movable, not copyable. Thread: one at a time.
/// Cost: about 600 bytes of state.
class Xxh3 {
 public:
  enum class Width : uint8_t { k64, k128 };

  explicit Xxh3(Width width);
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;

  void reset() noexcept;
  void update(std::span<const std::byte> bytes) noexcept;

  /// Digest of all bytes so far; more may follow. Only the width chosen at construction (checked).
  [[nodiscard]] uint64_t digest64() const noexcept;
  [[nodiscard]] Digest128 digest128() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One-shot forms. Source: XXH3_64bits and XXH3_128bits of xxHash 0.8, seed 0.
[[nodiscard]] uint64_t xxh3_64(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] Digest128 xxh3_128(std::span<const std::byte> bytes) noexcept;

/// 16 or 32 lower-case hex digits, most significant first (as `xxhsum -H3` and `-H128` print).
[[nodiscard]] std::string to_hex(uint64_t digest);
[[nodiscard]] std::string to_hex(const Digest128& digest);

/// Exact inverse of to_hex; nothing for another length, upper case or a foreign character.
[[nodiscard]] std::optional<uint64_t> parse_hex64(std::string_view text) noexcept;
[[nodiscard]] std::optional<Digest128> parse_hex128(std::string_view text) noexcept;

}  // namespace npu
