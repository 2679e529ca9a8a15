#include "shm/format/digest.hpp"

#define XXH_STATIC_LINKING_ONLY  // the size of XXH3_state_t, to embed it
#include <xxhash.h>

#include <utility>

#include "shm/base/error.hpp"

namespace npu {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(std::string* out, uint64_t value) {
  for (int shift = 60; shift >= 0; shift -= 4) out->push_back(kHexDigits[(value >> shift) & 15U]);
}

}  // namespace

struct Xxh3::State {
  XXH3_state_t xxh;
  Width width;
};

Xxh3::Xxh3(Width width) : state_(std::make_unique<State>()) {
  state_->width = width;
  // The streaming API compares a state's seed with the new one on reset, so it starts initialised.
  XXH3_INITSTATE(&state_->xxh);
  reset();
}
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::reset() noexcept {
  if (state_->width == Width::k64) {
    XXH3_64bits_reset(&state_->xxh);
  } else {
    XXH3_128bits_reset(&state_->xxh);
  }
}

void Xxh3::update(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;
  if (state_->width == Width::k64) {
    XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
  } else {
    XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  }
}

uint64_t Xxh3::digest64() const noexcept {
  NPU_CHECK(state_->width == Width::k64);
  return XXH3_64bits_digest(&state_->xxh);
}

Digest128 Xxh3::digest128() const noexcept {
  NPU_CHECK(state_->width == Width::k128);
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

uint64_t xxh3_64(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Digest128 xxh3_128(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string to_hex(uint64_t digest) {
  std::string out;
  append_hex(&out, digest);
  return out;
}

std::string to_hex(const Digest128& digest) {
  std::string out;
  append_hex(&out, digest.high);
  append_hex(&out, digest.low);
  return out;
}

std::optional<uint64_t> parse_hex64(std::string_view text) noexcept {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  return value;
}

std::optional<Digest128> parse_hex128(std::string_view text) noexcept {
  if (text.size() != 32) return std::nullopt;
  const auto high = parse_hex64(text.substr(0, 16));
  const auto low = parse_hex64(text.substr(16));
  if (!high || !low) return std::nullopt;
  return Digest128{*high, *low};
}

}  // namespace npu
