#include "client/metrics/http_endpoint.hpp"

#include <gmock/gmock.h>

#include <atomic>

#include "tests/support/http_get.hpp"

namespace npu::client {
namespace {

using test::http;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::unique_ptr<HttpEndpoint> serve(HttpEndpoint::Source source) {
  auto endpoint = HttpEndpoint::start({.host = "127.0.0.1", .port = 0}, std::move(source));
  EXPECT_TRUE(endpoint) << endpoint.error().message;
  return endpoint ? std::move(*endpoint) : nullptr;
}

TEST(HttpEndpoint, AsksTheSourceForEachRequest) {
  std::atomic<int> asked{0};
  const auto sut = serve([&] { return "asked " + std::to_string(++asked) + "\n"; });
  ASSERT_NE(sut, nullptr);
  const int port = sut->address().port;
  EXPECT_NE(port, 0);
  const std::string first = http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(first, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(first, HasSubstr("\r\n\r\nasked 1\n"));
  EXPECT_THAT(http(port, "GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("asked 2\n"));
}

TEST(HttpEndpoint, AnswersHeadWithoutABody) {
  const auto sut = serve([] { return std::string("body"); });
  ASSERT_NE(sut, nullptr);
  const std::string got = http(sut->address().port, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(got, Not(HasSubstr("body")));
}

TEST(HttpEndpoint, AnErrorOfTheSourceIs503WithItsSentence) {
  const auto sut = serve([]() -> Result<std::string> { return fail(Code::kUnavailable, "no daemon at 'x'"); });
  ASSERT_NE(sut, nullptr);
  const std::string got = http(sut->address().port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(got, HasSubstr("no daemon at 'x'"));
}

TEST(HttpEndpoint, ServesNothingElse) {
  const auto sut = serve([] { return std::string("secret"); });
  ASSERT_NE(sut, nullptr);
  const int port = sut->address().port;
  for (const std::string path : {"/", "/metrics/../etc/passwd", "/metrics2", "/metrics/x"}) {
    EXPECT_THAT(http(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 404 ")) << path;
  }
  const std::string post = "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
  EXPECT_THAT(http(port, post), StartsWith("HTTP/1.1 405 "));
  for (const char* nonsense : {"\r\n\r\n", "GET\r\n\r\n", "\x01\x02\x03\r\n\r\n"}) {
    EXPECT_THAT(http(port, nonsense), Not(HasSubstr("secret")));
  }
  EXPECT_THAT(http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("secret")) << "still there";
}

TEST(HttpEndpoint, ATakenPortIsSaidSo) {
  const auto first = serve([] { return std::string(); });
  ASSERT_NE(first, nullptr);
  const auto sut = HttpEndpoint::start(first->address(), [] { return std::string(); });
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBusy);
  EXPECT_THAT(sut.error().message, HasSubstr(first->address().text()));
  EXPECT_THAT(sut.error().message, HasSubstr("--listen"));
}

}  // namespace
}  // namespace npu::client
