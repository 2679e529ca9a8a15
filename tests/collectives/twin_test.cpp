// The semantics with everything in one process and one mapping: ranks are threads, the engine runs
// beside them. ThreadSanitizer sees through all of it; process_test.cpp has the real processes.
#include "tests/collectives/twin.hpp"

#include <gtest/gtest.h>

#include "tests/collectives/rank_body.hpp"

namespace npu::test {
namespace {

struct Parameter {
  Case semantics;
  uint32_t world;
};

void PrintTo(const Parameter& p, std::ostream* out) {
  *out << p.semantics.name << " on " << p.world;
}

class Semantics : public testing::TestWithParam<Parameter> {};

TEST_P(Semantics, OnThreads) {
  const auto& [semantics, world] = GetParam();
  RecordProperty("semantics", semantics.numbers);
  Twin sut(world, 1 + world % 3);
  for (const auto& wrong : sut.ranks(semantics.body)) EXPECT_EQ(wrong, "");
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> list;
  for (const Case& c : all_cases()) {
    for (const uint32_t world : c.worlds) list.push_back({c, world});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(, Semantics, testing::ValuesIn(parameters()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.semantics.name, test.param.world);
});

}  // namespace
}  // namespace npu::test
