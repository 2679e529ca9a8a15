// Shared by the tests of config/: load a text, or get the diagnostics it produces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/load.hpp"

namespace npu::config {

inline std::string errors_of(std::string_view text,
                             const std::vector<std::string>& overrides = {}) {
  const auto job = load_job_text(text, "job.yaml", overrides);
  if (job) return "";
  EXPECT_EQ(job.error().exit, Exit::kBadConfig);
  EXPECT_EQ(job.error().code, Code::kInvalidArgument);
  return job.error().message;
}

inline size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace npu::config
