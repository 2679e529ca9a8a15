#include "client/metrics/listen_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace npu::client {
namespace {

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_address(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

}  // namespace

std::string ListenAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto refused = [text] {
    return fail(Code::kInvalidArgument,
                "--listen '{}': ADDRESS:PORT was expected, such as 127.0.0.1:9464 or [::1]:9464", text);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refused();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  ListenAddress address{.host = std::string(host == "localhost" ? "127.0.0.1" : host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  const bool number = error == std::errc() && end == port.data() + port.size() && !port.empty();
  const bool v6 = host.find(':') != std::string_view::npos;
  if (!number || address.port < 0 || address.port > 65535 || v6 != bracketed || !is_address(address.host)) {
    return refused();
  }
  if (!is_loopback(address.host)) {
    return fail(Code::kInvalidArgument,
                "--listen '{}': the endpoint asks for no password, so only addresses of this host are served, "
                "127.0.0.1 or [::1]; put a proxy that does in front of it",
                text);
  }
  return address;
}

}  // namespace npu::client
