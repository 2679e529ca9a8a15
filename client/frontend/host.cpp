#include "client/frontend/host.hpp"

#include <charconv>

#include "config/diagnostics.hpp"

namespace npu::frontend {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

Result<void> check_port(std::string_view what, std::string_view port) {
  if (port == "**") {
    return fail(Code::kInvalidArgument,
                "{}: '**' stands for a port of your choice; leave it out, ranks meet in the daemon "
                "and need none",
                what);
  }
  int value = 0;
  const char* const last = port.data() + port.size();
  const auto [end, error] = std::from_chars(port.data(), last, value);
  if (error == std::errc() && end == last && value >= 0 && value <= 65535) return {};
  return fail(Code::kInvalidArgument, "{}: {} is no port; expected 0 to 65535", what,
              config::quoted(port));
}

}  // namespace

Result<void> check_host(std::string_view what, std::string_view host) {
  if (is_loopback(host)) return {};
  return fail(Code::kInvalidArgument,
              "{} {}: all ranks are on this host; use 127.0.0.1, or leave it out", what,
              config::quoted(host));
}

Result<void> check_dist_url(std::string_view url) {
  constexpr std::string_view kTcp = "tcp://";
  if (url == "env://") return {};
  if (!url.starts_with(kTcp)) {
    return fail(Code::kInvalidArgument,
                "--dist-url {}: expected tcp://127.0.0.1:PORT or env://, or leave it out",
                config::quoted(url));
  }
  const std::string_view rest = url.substr(kTcp.size());
  const size_t colon = rest.rfind(':');
  const std::string_view host = rest.substr(0, colon);
  NPU_TRY_VOID(check_host("--dist-url", host));
  if (colon == std::string_view::npos) return {};
  return check_port("--dist-url", rest.substr(colon + 1));
}

Result<void> check_master(const std::function<const char*(const char*)>& get) {
  if (const char* addr = get("MASTER_ADDR"); addr != nullptr && *addr != '\0') {
    NPU_TRY_VOID(check_host("environment: MASTER_ADDR", addr));
  }
  if (const char* port = get("MASTER_PORT"); port != nullptr && *port != '\0') {
    NPU_TRY_VOID(check_port("environment: MASTER_PORT", port));
  }
  return {};
}

}  // namespace npu::frontend
