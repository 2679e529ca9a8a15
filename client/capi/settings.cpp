#include "client/capi/settings.hpp"

#include <string_view>

#include "shm/base/units.hpp"
#include "shm/messages.hpp"

namespace npu::capi {
namespace {

constexpr uint64_t kDefaultArenaBytes = uint64_t{64} << 20;
constexpr uint64_t kPageBytes = 4096;

uint64_t round_up(uint64_t bytes, uint64_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

// When the structure grows, the sizes of earlier versions stay allowed and the rest is filled from
// the defaults.
Result<npu_config_t> read_config(const npu_config_t* config) {
  npu_config_t defaults = NPU_CONFIG_INIT;
  if (config == nullptr) return defaults;
  if (config->version != NPU_CONFIG_VERSION || config->size != sizeof(npu_config_t)) {
    return fail(
        Code::kInvalidArgument,
        "npu_comm_init_rank: a configuration of version {} with {} bytes; this library has "
        "version {} with {}; begin with NPU_CONFIG_INIT, and build with this library's npu.h",
        config->version, config->size, NPU_CONFIG_VERSION, sizeof(npu_config_t));
  }
  return *config;
}

tl::unexpected<Error> bad_field(const char* field, int64_t value, std::string_view allowed) {
  return fail(Code::kInvalidArgument, "npu_comm_init_rank: {} is {}; allowed: {}", field, value,
              allowed);
}

Result<void> check_ranges(const npu_config_t& c) {
  if (c.device < NPU_CONFIG_DEFAULT)
    return bad_field("device", c.device, "0 to 7, or NPU_CONFIG_DEFAULT for the rank");
  if (c.algorithm < 0 || c.algorithm >= shm::kAlgorithmCount)
    return bad_field("algorithm", c.algorithm, "npu_algorithm_t");
  if (c.staging_bytes < NPU_CONFIG_DEFAULT)
    return bad_field("staging_bytes", c.staging_bytes, "0 or more, or NPU_CONFIG_DEFAULT");
  if (c.join_timeout_ms < 0)
    return bad_field("join_timeout_ms", c.join_timeout_ms, "milliseconds, or 0 for no limit");
  if (c.timeout_ms < NPU_CONFIG_DEFAULT || c.timeout_ms >= UINT32_MAX)
    return bad_field("timeout_ms", c.timeout_ms,
                     "milliseconds below 2^32 - 1, 0 for no limit, or NPU_CONFIG_DEFAULT");
  if (c.strict != 0 && c.strict != 1) return bad_field("strict", c.strict, "0 or 1");
  if (c.reserved != 0) return bad_field("reserved", c.reserved, "0");
  return {};
}

Result<std::string> run_key(const npu_config_t& c, GetEnv get) {
  const char* key = c.run_key != nullptr ? c.run_key : get("NPU_RUN_KEY");
  const std::string_view text = key != nullptr ? key : "";
  if (text.size() < shm::kKeyBytes) return std::string(text);
  return fail(Code::kInvalidArgument,
              "npu_comm_init_rank: a run key ({}) of {} bytes; at most {} are compared",
              c.run_key != nullptr ? "run_key" : "NPU_RUN_KEY", text.size(), shm::kKeyBytes - 1);
}

Result<void> set_memory(const npu_config_t& c, client::AttachOptions& attach) {
  const uint64_t wanted = c.arena_bytes == 0 ? kDefaultArenaBytes : c.arena_bytes;
  if (wanted > INT64_MAX)
    return fail(Code::kInvalidArgument,
                "npu_comm_init_rank: arena_bytes is {}; allowed: what the device has (npu info)",
                wanted);
  attach.arena_bytes = round_up(wanted, kPageBytes);
  const uint64_t staging = c.staging_bytes == NPU_CONFIG_DEFAULT
                               ? attach.arena_bytes / 4
                               : static_cast<uint64_t>(c.staging_bytes);
  // Copies must be aligned as the engines want elements.
  attach.staging_bytes = round_up(staging, shm::kLineBytes);
  if (attach.staging_bytes < attach.arena_bytes) return {};
  return fail(Code::kInvalidArgument,
              "npu_comm_init_rank: a staging region of {} in an arena of {}; it must be smaller",
              format_bytes(attach.staging_bytes), format_bytes(attach.arena_bytes));
}

}  // namespace

Result<Settings> make_settings(const InitArguments& arguments, GetEnv get) {
  if (arguments.run_name == nullptr || !shm::valid_run_name(arguments.run_name)) {
    return fail(Code::kInvalidArgument,
                "npu_comm_init_rank: the run name must be 1 to 64 of a-z 0-9 . _ -, and not '.' or "
                "'..'; npu_get_unique_id makes one");
  }
  if (arguments.nranks == 0 || arguments.nranks > shm::kMaxDevices ||
      arguments.rank >= arguments.nranks) {
    return fail(Code::kInvalidArgument,
                "npu_comm_init_rank: rank {} of {}; a run has 1 to {} ranks, counted from 0",
                arguments.rank, arguments.nranks, shm::kMaxDevices);
  }
  NPU_TRY(const npu_config_t c, read_config(arguments.config));
  NPU_TRY_VOID(check_ranges(c));
  Settings settings;
  settings.attach.socket = c.socket != nullptr ? c.socket : "";
  settings.attach.run = arguments.run_name;
  NPU_TRY(settings.attach.run_key, run_key(c, get));
  settings.attach.world = arguments.nranks;
  settings.attach.rank = arguments.rank;
  settings.attach.device =
      c.device == NPU_CONFIG_DEFAULT ? arguments.rank : static_cast<uint32_t>(c.device);
  settings.attach.join_timeout = milliseconds(c.join_timeout_ms);
  NPU_TRY_VOID(set_memory(c, settings.attach));
  // What is left open here, NPU_COLL_ALGO and NPU_COLL_TIMEOUT decide: read by Device::attach.
  settings.collective.algorithm = static_cast<shm::Algorithm>(c.algorithm);
  if (c.timeout_ms != NPU_CONFIG_DEFAULT) settings.collective.timeout = milliseconds(c.timeout_ms);
  settings.collective.strict = c.strict == 1;
  return settings;
}

}  // namespace npu::capi
