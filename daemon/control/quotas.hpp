// How much one user may have: the `quotas:` of the configuration with its users looked up, and the
// sentence that says no.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "config/daemon.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

using config::Quota;
using config::QuotaKind;

/// Immutable: a reload makes another one and swaps the pointer. What is in use stays in use; a
/// limit that shrank refuses what comes next.
class Quotas {
 public:
  /// Those of an empty configuration.
  Quotas() = default;

  /// Errors: invalid_argument, exit 78 (a user that this host does not know, one uid twice).
  [[nodiscard]] static Result<std::shared_ptr<const Quotas>> make(
      const config::QuotaConfig& config);

  [[nodiscard]] const Quota& of(int64_t uid) const noexcept;

 private:
  Quota everybody_;
  std::map<int64_t, Quota> users_;
};

/// What is wanted beside what is there.
struct QuotaUse {
  QuotaKind kind = QuotaKind::kDevices;
  uint64_t wanted = 0, used = 0;
};

/// `what` begins the sentence: "attach to run 'a'". Errors: resource_exhausted with wanted, used,
/// limit and key; exit 75 if it may pass later, 77 if it never will.
[[nodiscard]] Result<void> check_quota(const Quota& quota, const QuotaUse& use, int64_t uid,
                                       std::string_view what);

/// The same sentence for a limit that is already known: 0 = none.
[[nodiscard]] Result<void> check_quota(uint64_t limit, const QuotaUse& use, int64_t uid,
                                       std::string_view what);

/// The key as an administrator writes it: "quotas.devices".
[[nodiscard]] std::string_view quota_key(QuotaKind kind) noexcept;

}  // namespace npu::daemon
