// Flags as a test gives them, and the job that comes out.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "client/frontend/translate.hpp"
#include "config/load.hpp"

namespace npu::frontend {

using Flags = std::initializer_list<std::pair<const char*, const char*>>;

inline Given given(Flags flags) {
  Given out;
  for (const auto& [name, value] : flags) out.set(name, value);
  return out;
}

/// A folder of ten classes called photos.
inline Surroundings photos() {
  Surroundings around;
  around.data = {.path = "/data/photos", .name = "photos", .num_classes = 10};
  around.all_devices = "0-7";
  return around;
}

/// The loader's view of a translation; the test fails when either step refuses.
inline config::Job job_of(const Result<Translation>& made) {
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  auto job = config::load_job_text(made->yaml, "launch flags");
  EXPECT_TRUE(job) << job.error().message << made->yaml;
  return job ? *job : config::Job{};
}

}  // namespace npu::frontend
