// The keys below `quotas:`, for everybody and again for each user. Internal to config/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/daemon.hpp"
#include "config/schema.hpp"

namespace npu::config {

/// One row a kind, in the order of QuotaKind: "quotas.devices", ...
[[nodiscard]] std::vector<Field> quota_fields(Quota& quota);

/// "alice: {devices: 2, memory: 1GiB}" for each user; `users` keeps its value when anything is
/// refused.
void assign_user_quotas(const Field& field, const Node& node, std::vector<UserQuota>& users,
                        Diagnostics& out);

/// In one line that assign_user_quotas reads back.
[[nodiscard]] std::string user_quotas_text(const std::vector<UserQuota>& users);

}  // namespace npu::config
