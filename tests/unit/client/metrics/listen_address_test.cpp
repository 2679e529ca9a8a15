#include "client/metrics/listen_address.hpp"

#include <gmock/gmock.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

TEST(ListenAddress, IsAnAddressOfThisHostAndAPort) {
  EXPECT_EQ(parse_listen_address("127.0.0.1:9464")->text(), "127.0.0.1:9464");
  EXPECT_EQ(parse_listen_address("127.1.2.3:1")->text(), "127.1.2.3:1");
  EXPECT_EQ(parse_listen_address("localhost:0")->text(), "127.0.0.1:0");
  EXPECT_EQ(parse_listen_address("[::1]:65535")->text(), "[::1]:65535");
}

TEST(ListenAddress, WhatIsNoAddressIsRefused) {
  for (const char* wrong :
       {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536",
        "127.0.0.1:94 64", "::1:9464", "[::1]", "[127.0.0.1]:9464", "example.org:9464", "127.0.0.1:1,80"}) {
    const auto sut = parse_listen_address(wrong);
    ASSERT_FALSE(sut) << wrong;
    EXPECT_EQ(sut.error().exit, Exit::kUsage);
    EXPECT_THAT(sut.error().message, HasSubstr("'" + std::string(wrong) + "'"));
    EXPECT_THAT(sut.error().message, HasSubstr("127.0.0.1:9464"));
  }
}

TEST(ListenAddress, OthersMustNotReachIt) {
  for (const char* open : {"0.0.0.0:9464", "192.168.1.7:9464", "[::]:9464", "[fe80::1]:9464"}) {
    const auto sut = parse_listen_address(open);
    ASSERT_FALSE(sut) << open;
    EXPECT_THAT(sut.error().message, HasSubstr("asks for no password"));
  }
}

}  // namespace
}  // namespace npu::client
