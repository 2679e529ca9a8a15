// Where ranks of other programs meet: an address and a port. Ranks here meet in the daemon, so
// these are only checked: what names another host is a mistake, and said so.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu::frontend {

/// Errors: invalid_argument unless `host` is this host's loopback. `what` begins the sentence.
[[nodiscard]] Result<void> check_host(std::string_view what, std::string_view host);

/// "env://" or "tcp://127.0.0.1:PORT". Errors: invalid_argument (another host, another scheme, a
/// port that is none, the placeholder **).
[[nodiscard]] Result<void> check_dist_url(std::string_view url);

/// MASTER_ADDR and MASTER_PORT, if set. Errors: as above. `get` as std::getenv.
[[nodiscard]] Result<void> check_master(const std::function<const char*(const char*)>& get);

}  // namespace npu::frontend
