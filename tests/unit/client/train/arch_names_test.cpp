// The job file's choices of model.arch and the networks that can be built are two lists, because
// config/ and model/ do not know each other: here they meet.
#include <gmock/gmock.h>

#include "config/schema.hpp"
#include "model/arch.hpp"

namespace npu::client {
namespace {

TEST(ArchNames, OfTheJobFileAreThoseThatCanBeBuilt) {
  config::Job job;
  const std::vector<config::Field> fields = config::job_fields(job);
  const auto arch = std::ranges::find(fields, "model.arch", &config::Field::path);
  ASSERT_NE(arch, fields.end());
  const std::vector<std::string> names(arch->choices.begin(), arch->choices.end());
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(model::known_archs()));
}

}  // namespace
}  // namespace npu::client
