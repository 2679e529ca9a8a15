// Random numbers by name instead of by order: the same key gives the same number on any rank,
// thread or run. Not for secrets.
#pragma once

#include <cstdint>

namespace npu::data {

/// Finalizer of splitmix64: every input bit flips about half of the output bits.
/// Source: Steele, Lea, Flood 2014, with Stafford's mix 13 constants.
[[nodiscard]] constexpr uint64_t mix64(uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// One 64-bit draw for the key (a, b, c); a chain of mixes, so the order of the parts matters.
[[nodiscard]] constexpr uint64_t keyed_random(uint64_t a, uint64_t b, uint64_t c) noexcept {
  return mix64(mix64(mix64(a) ^ b) ^ c);
}

/// Maps 32 random bits to 0..n-1. Bias below n / 2^32.
[[nodiscard]] constexpr uint32_t below(uint32_t bits, uint32_t n) noexcept {
  return static_cast<uint32_t>((uint64_t{bits} * n) >> 32);
}

}  // namespace npu::data
