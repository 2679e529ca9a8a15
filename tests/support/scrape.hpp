// What a real daemon's metrics say, read as a scraper would.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "client/api/admin.hpp"
#include "tests/support/exposition.hpp"

namespace npu::test {

/// Fails the test if the daemon does not answer or its text breaks a rule.
inline Exposed scrape(const std::string& socket) {
  const auto text = client::read_metrics(socket);
  EXPECT_TRUE(text) << text.error().message;
  Exposed got = read_exposition(text.value_or(""));
  EXPECT_THAT(got.problems, testing::IsEmpty());
  return got;
}

}  // namespace npu::test
