// What npu_comm_init_rank was told, by its arguments, its configuration and the environment, in
// this order of precedence, as the C++ interface wants it.
#pragma once

#include <npu/npu.h>

#include "client/api/device.hpp"
#include "shm/base/error.hpp"

namespace npu::capi {

struct Settings {
  client::AttachOptions attach;  // socket: as configured, may be empty
  client::CollectiveOptions collective;
};

/// What the arguments of npu_comm_init_rank say. `run_name` may be null: an error.
struct InitArguments {
  uint32_t nranks = 0, rank = 0;
  const char* run_name = nullptr;
  const npu_config_t* config = nullptr;  // null: NPU_CONFIG_INIT
};

/// Looks a variable up; null when it is not set. std::getenv is one.
using GetEnv = const char* (*)(const char* name);

/// Errors: invalid_argument naming field or variable, value and what is allowed.
[[nodiscard]] Result<Settings> make_settings(const InitArguments& arguments, GetEnv get);

}  // namespace npu::capi
