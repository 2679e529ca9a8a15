// Serves one text over HTTP, made anew for each request.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/metrics/listen_address.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

/// Thread: the source is called from threads of the server, two at once at most. The destructor waits for them.
class HttpEndpoint {
 public:
  using Source = std::function<Result<std::string>()>;

  /// GET and HEAD of /metrics: 200 with the text, 503 with the sentence of an error. Anything else: 404 or 405.
  /// Errors: unavailable, exit 75 (the address is taken).
  [[nodiscard]] static Result<std::unique_ptr<HttpEndpoint>> start(const ListenAddress& address, Source source);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  /// With the port that was found when 0 was asked for.
  [[nodiscard]] const ListenAddress& address() const noexcept;

 private:
  struct Impl;
  explicit HttpEndpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::client
