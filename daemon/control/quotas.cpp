#include "daemon/control/quotas.hpp"

#include <pwd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

#include "shm/base/units.hpp"
#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

constexpr std::array<std::string_view, config::kQuotaKinds> kKeys = {
    "quotas.devices", "quotas.memory",      "quotas.sessions",
    "quotas.staged",  "quotas.checkpoints", "quotas.messages_per_second"};

std::string amount(QuotaKind kind, uint64_t value) {
  const bool bytes =
      kind == QuotaKind::kMemory || kind == QuotaKind::kStaged || kind == QuotaKind::kCheckpoints;
  return bytes ? format_bytes(value) : std::to_string(value);
}

std::string_view unit(QuotaKind kind) {
  switch (kind) {
    case QuotaKind::kDevices:
      return " devices";
    case QuotaKind::kMemory:
      return " of device memory";
    case QuotaKind::kSessions:
      return " connections";
    case QuotaKind::kStaged:
      return " of snapshots being written";
    case QuotaKind::kCheckpoints:
      return " of checkpoints";
    case QuotaKind::kMessages:
      return " messages a second";
  }
  return "";
}

/// A uid is taken as it is: accounts of another host's directory may be known by number only.
Result<int64_t> look_up(const std::string& user) {
  uint32_t uid = 0;
  const char* const end = user.data() + user.size();
  const auto [rest, problem] = std::from_chars(user.data(), end, uid);
  if (problem == std::errc{} && rest == end) return uid;
  std::vector<char> buffer(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  int result = ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  while (result == ERANGE && buffer.size() < (1 << 20)) {
    buffer.resize(buffer.size() * 2);
    result = ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  }
  if (found != nullptr) return found->pw_uid;
  return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                   "quotas.users: this host has no user '{}'; correct the name, or give the uid",
                   printable(user));
}

}  // namespace

std::string_view quota_key(QuotaKind kind) noexcept { return kKeys[static_cast<size_t>(kind)]; }

Result<std::shared_ptr<const Quotas>> Quotas::make(const config::QuotaConfig& config) {
  auto quotas = std::make_shared<Quotas>();
  quotas->everybody_ = config.everybody;
  for (const config::UserQuota& user : config.users) {
    NPU_TRY(const int64_t uid, look_up(user.user));
    const auto [at, fresh] = quotas->users_.emplace(uid, config.everybody);
    if (!fresh) {
      return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                       "quotas.users: '{}' is uid {}, which is there already; give one of them",
                       printable(user.user), uid);
    }
    for (size_t kind = 0; kind < config::kQuotaKinds; ++kind) {
      if (user.most[kind]) at->second.most[kind] = *user.most[kind];
    }
  }
  return quotas;
}

const Quota& Quotas::of(int64_t uid) const noexcept {
  const auto found = users_.find(uid);
  return found == users_.end() ? everybody_ : found->second;
}

Result<void> check_quota(const Quota& quota, const QuotaUse& use, int64_t uid,
                         std::string_view what) {
  return check_quota(quota[use.kind], use, uid, what);
}

Result<void> check_quota(uint64_t limit, const QuotaUse& use, int64_t uid, std::string_view what) {
  if (limit == 0 || (use.wanted <= limit && use.used <= limit - use.wanted)) return {};
  const bool never = use.wanted > limit;
  return fail_exit(
      Code::kResourceExhausted, never ? Exit::kPermission : Exit::kBusy,
      "{}: {}{} are wanted, uid {} uses {}, the limit is {} ({} of npud); {}", what,
      amount(use.kind, use.wanted), unit(use.kind), uid, amount(use.kind, use.used),
      amount(use.kind, limit), quota_key(use.kind),
      never ? "ask the administrator for more" : "free some, or wait until some is free");
}

}  // namespace npu::daemon
