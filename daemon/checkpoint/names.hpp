// Names inside a run directory: what is a checkpoint, what a dead writer left, what is not ours.
// Pure functions on strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace npu::daemon {

/// "step-40"
[[nodiscard]] std::string step_name(uint64_t step);
/// Inverse of step_name; nothing for signs, leading zeros, overflow or anything else.
[[nodiscard]] std::optional<uint64_t> parse_step_name(std::string_view name);

/// "<base>.tmp-<16 hex>": being written or being deleted; a dead writer's is removed.
[[nodiscard]] std::string temp_name(std::string_view base, uint64_t nonce);
[[nodiscard]] bool is_temp_name(std::string_view name);

/// "step-40.old-<16 hex>": set aside for a moment on file systems without RENAME_EXCHANGE; a dead
/// writer's is restored when step-40 does not exist.
[[nodiscard]] std::string aside_name(std::string_view base, uint64_t nonce);
/// "step-40" of an aside name.
[[nodiscard]] std::optional<std::string> parse_aside_name(std::string_view name);

/// A decimal uid without leading zeros.
[[nodiscard]] bool is_uid_name(std::string_view name);

}  // namespace npu::daemon
