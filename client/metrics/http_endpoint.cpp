#include "client/metrics/http_endpoint.hpp"

#include <civetweb.h>

#include <array>
#include <string_view>

namespace npu::client {

struct HttpEndpoint::Impl {
  ~Impl() {
    if (server != nullptr) mg_stop(server);
  }

  ListenAddress address;
  Source source;
  mg_context* server = nullptr;
};

namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kExposition = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the status, which tells civetweb that the request was answered.
int answer(mg_connection* connection, int status, const char* reason, const char* type, std::string_view body,
           bool with_body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
            "Connection: close\r\n\r\n",
            status, reason, type, body.size());
  if (with_body) (void)mg_write(connection, body.data(), body.size());  // a reader that went needs nothing
  return status;
}

int on_request(mg_connection* connection, void* data) {
  const auto& source = *static_cast<const HttpEndpoint::Source*>(data);
  const mg_request_info* info = mg_get_request_info(connection);
  const std::string_view method = info->request_method;
  const std::string_view path = info->local_uri != nullptr ? info->local_uri : "";
  const bool get = method == "GET";
  if (!get && method != "HEAD") return answer(connection, 405, "Method Not Allowed", kText, "GET or HEAD\n", true);
  if (path != "/metrics") return answer(connection, 404, "Not Found", kText, "see /metrics\n", get);
  const auto text = source();
  if (!text) return answer(connection, 503, "Service Unavailable", kText, text.error().message + "\n", get);
  return answer(connection, 200, "OK", kExposition, *text, get);
}

/// Errors reach the caller as what mg_start2 says; a client's broken request is nobody's news.
int keep_quiet(const mg_connection*, const char*) { return 1; }

}  // namespace

HttpEndpoint::HttpEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpEndpoint::~HttpEndpoint() = default;

Result<std::unique_ptr<HttpEndpoint>> HttpEndpoint::start(const ListenAddress& address, Source source) {
  static const unsigned initialised = mg_init_library(0);
  (void)initialised;
  auto impl = std::make_unique<Impl>();
  impl->address = address;
  impl->source = std::move(source);
  const std::string listen = address.text();
  std::array<const char*, 11> options = {"listening_ports",
                                         listen.c_str(),
                                         "num_threads",
                                         "2",
                                         "request_timeout_ms",
                                         "5000",
                                         "enable_keep_alive",
                                         "no",
                                         "enable_directory_listing",
                                         "no",
                                         nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = keep_quiet;
  std::array<char, 256> text{};
  unsigned code = 0;
  mg_error_data error{};
  error.code = &code;
  error.text = text.data();
  error.text_buffer_size = text.size();
  mg_init_data init{};
  init.callbacks = &callbacks;
  init.configuration_options = options.data();
  impl->server = mg_start2(&init, &error);
  mg_server_port port{};
  if (impl->server == nullptr || mg_get_server_ports(impl->server, 1, &port) != 1) {
    return fail_exit(Code::kUnavailable, Exit::kBusy,
                     "listen at {}: {}; is the port taken? Choose another one with --listen", listen,
                     text[0] != '\0' ? text.data() : "no socket could be opened");
  }
  impl->address.port = port.port;
  mg_set_request_handler(impl->server, "**", on_request, &impl->source);
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(impl)));
}

const ListenAddress& HttpEndpoint::address() const noexcept { return impl_->address; }

}  // namespace npu::client
