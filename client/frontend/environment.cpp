#include "client/frontend/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "client/api/hccl_env.hpp"
#include "client/frontend/host.hpp"
#include "config/diagnostics.hpp"

namespace npu::frontend {
namespace {

constexpr const char* kTableFile = "RANK_TABLE_FILE";

bool is_set(const GetEnv& get, const char* name) {
  const char* value = get(name);
  return value != nullptr && *value != '\0';
}

/// Errors: a variable of the environment method beside the file method.
Result<void> refuse_mixture(const GetEnv& get) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK_SIZE", "DEVICE_ID", "CM_CHIEF_IP",
        "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_IP", "CM_WORKER_SIZE"}) {
    if (!is_set(get, name)) continue;
    return fail(Code::kInvalidArgument,
                "environment: {} is set beside {}; the table says it all but RANK_ID, so unset one",
                name, kTableFile);
  }
  return {};
}

}  // namespace

std::string LaunchEnvironment::all_devices() const {
  if (table) return fmt::format("{}", fmt::join(table->devices, ","));
  if (!visible) return "0-7";
  const size_t n = visible->ids.size();
  return n < 2 ? "0" : fmt::format("0-{}", n - 1);
}

Result<std::vector<int>> LaunchEnvironment::host_devices(std::span<const int> devices) const {
  if (table && !std::ranges::equal(table->devices, devices)) {
    return fail_exit(Code::kFailedPrecondition, Exit::kBadConfig,
                     "rank table: it lists devices {} but the job has {}; use --set devices={}",
                     fmt::join(table->devices, ","), fmt::join(devices, ","),
                     fmt::join(table->devices, ","));
  }
  if (visible) return renumber(devices, *visible);
  return std::vector<int>(devices.begin(), devices.end());
}

Result<LaunchEnvironment> launch_environment(const GetEnv& get) {
  LaunchEnvironment env;
  NPU_TRY(env.visible, visible_devices(get));
  if (env.visible && !env.visible->warning.empty()) env.remarks.push_back(env.visible->warning);
  if (is_set(get, kTableFile)) {
    NPU_TRY_VOID(refuse_mixture(get));
    if (env.visible) {
      return fail(Code::kInvalidArgument,
                  "environment: {} and {} both say which devices; unset one", kTableFile,
                  env.visible->variable);
    }
    NPU_TRY(env.table, load_rank_table(get(kTableFile)));
  } else {
    // Which rank this process would be is nothing to a launcher; half of it is a mistake.
    NPU_TRY_VOID(client::rank_from_environment(get));
  }
  NPU_TRY_VOID(check_master(get));
  NPU_TRY(const client::HcclEnv hccl, client::hccl_environment(get));
  env.remarks.insert(env.remarks.end(), hccl.remarks.begin(), hccl.remarks.end());
  return env;
}

Result<std::optional<client::RankPlace>> rank_place(const GetEnv& get) {
  if (!is_set(get, kTableFile)) return client::rank_from_environment(get);
  NPU_TRY_VOID(refuse_mixture(get));
  NPU_TRY(const RankTable table, load_rank_table(get(kTableFile)));
  if (!is_set(get, "RANK_ID")) {
    return fail(Code::kInvalidArgument,
                "environment: {} is set but RANK_ID is not; it says which of the {} ranks this is",
                kTableFile, table.devices.size());
  }
  const std::string_view text = get("RANK_ID");
  const int world = static_cast<int>(table.devices.size());
  int rank = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, rank);
  if (error != std::errc() || end != last || rank < 0 || rank >= world) {
    return fail(Code::kInvalidArgument,
                "environment: RANK_ID={} where the rank table has ranks 0 to {}",
                config::quoted(text), world - 1);
  }
  return client::RankPlace{.rank = rank,
                           .world = world,
                           .local_rank = rank,
                           .device = table.devices[static_cast<size_t>(rank)]};
}

}  // namespace npu::frontend
