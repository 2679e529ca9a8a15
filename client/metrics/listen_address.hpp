// Where an endpoint without authentication may listen: at this host's own addresses.
#pragma once

#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu::client {

struct ListenAddress {
  std::string host;  // "127.0.0.1", "::1"
  int port = 0;      // 0: any that is free

  /// "127.0.0.1:9464", "[::1]:9464"
  [[nodiscard]] std::string text() const;
};

/// Errors: invalid_argument (not ADDRESS:PORT with a loopback address; "localhost" is 127.0.0.1).
[[nodiscard]] Result<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace npu::client
