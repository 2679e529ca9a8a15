// The semantics with real processes and a real daemon.
#include <gtest/gtest.h>

#include "tests/collectives/rank_body.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::test {

std::string many_random_operations(Rank& rank);
std::string many_barriers(Rank& rank);

namespace {

struct Parameter {
  Case semantics;
  uint32_t world;
};

int on_device(client::Device& device, const Body& body) {
  Rank rank{device.world(), device.arena()};
  const std::string wrong = body(rank);
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

void expect_on_processes(const Body& body, uint32_t world, const char* engine_threads) {
  DaemonProcess daemon({"--engine-threads", engine_threads});
  const auto codes = wait_ranks(fork_ranks(
      daemon.socket(), world, [&](client::Device& device) { return on_device(device, body); }));
  for (const int code : codes) EXPECT_EQ(code, 0);
}

void PrintTo(const Parameter& p, std::ostream* out) {
  *out << p.semantics.name << " on " << p.world;
}

class Semantics : public testing::TestWithParam<Parameter> {};

TEST_P(Semantics, OnProcesses) {
  const auto& [semantics, world] = GetParam();
  RecordProperty("semantics", semantics.numbers);
  expect_on_processes(semantics.body, world, world % 2 == 0 ? "2" : "3");
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> list;
  for (const Case& c : all_cases()) {
    // The smallest and the largest world as processes; threads have them all.
    list.push_back({c, c.worlds.front()});
    if (c.worlds.size() > 1) list.push_back({c, c.worlds.back()});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(, Semantics, testing::ValuesIn(parameters()), [](const auto& test) {
  return fmt::format("{}_{}", test.param.semantics.name, test.param.world);
});

TEST(Long, AHundredThousandRandomOperationsEqualASequentialModel) {
  expect_on_processes(many_random_operations, 4, "2");
}

TEST(Long, AHundredThousandBarriersHoldEverybody) { expect_on_processes(many_barriers, 8, "2"); }

}  // namespace
}  // namespace npu::test
