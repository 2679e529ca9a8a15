// Collectives that not all ranks call.
#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>

#include "tests/collectives/rank_body.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using client::Device;
using testing::Each;
using testing::HasSubstr;

constexpr client::CollectiveOptions kPatient{.timeout = milliseconds(20'000)};
/// Two ranks that both come need less.
constexpr client::CollectiveOptions kImpatient{.timeout = milliseconds(1'000)};

/// Of `count` floats in the arena, in place.
std::optional<Error> all_reduce(Device& device, uint64_t count,
                                const client::CollectiveOptions& options) {
  void* const data = device.arena().data();
  return test::error_of(
      device.world().all_reduce(data, data, count, DType::kFloat32, ReduceOp::kSum, options));
}

/// Waits until the run has failed; nothing after 10 s.
std::optional<Error> failure_of(const Device& device) {
  for (int i = 0; i < 2000 && !device.failure(); ++i) ::poll(nullptr, 0, 5);
  return device.failure();
}

/// By rank; ranks are threads.
template <typename Body>
std::vector<Error> errors_of(uint32_t world, const Body& body) {
  const test::DaemonProcess daemon;
  std::vector<Error> errors(world);
  test::run_threads(daemon.socket(), world, [&](Device& device) {
    if (const std::optional<Error> error = body(device)) errors[device.rank()] = *error;
    return 1;
  });
  return errors;
}

// alan-turing-institute/autocast#381, karpathy/nanochat PR#336: a collective under `if rank == 0`.
TEST(B34, CollectiveOfRankZeroAloneIsAnErrorOfAll) {
  // The others go on to the next one: its first partner is rank 0's surplus.
  const auto errors = errors_of(
      4, [](Device& device) { return all_reduce(device, device.rank() == 0 ? 10 : 20, kPatient); });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kFailedPrecondition) << error.message;
    EXPECT_THAT(error.message, HasSubstr("ranks 0 and 1 differ in count"));
    EXPECT_THAT(error.message, HasSubstr("seq 0 (fp32, sum, 10 elements)"));
  }
}

TEST(B34, CollectiveThatNobodyElseCallsNamesThoseWhoDoNot) {
  const auto errors = errors_of(4, [](Device& device) {
    return device.rank() == 0 ? all_reduce(device, 10, kImpatient) : failure_of(device);
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kDeadlineExceeded) << error.message;
    EXPECT_THAT(error.message, HasSubstr("ranks 1-3 did not arrive within 1 s"));
  }
}

// vllm-project/vllm-ascend#1443, hiyouga/LlamaFactory PR#975 (EI0002): the wait times out, nobody
// knows for whom.
TEST(B28, TimeoutSaysWhoIsLateAndWhereEverybodyIs) {
  const auto errors = errors_of(3, [](Device& device) -> std::optional<Error> {
    if (auto error = all_reduce(device, 500, kPatient)) return error;
    return device.rank() == 2 ? failure_of(device) : all_reduce(device, 1000, kImpatient);
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kDeadlineExceeded) << error.message;
    EXPECT_THAT(error.message, HasSubstr("all-reduce seq 1 (fp32, sum, 1000 elements)"));
    EXPECT_THAT(error.message, HasSubstr("rank 2 did not arrive within 1 s"));
    EXPECT_THAT(error.message, HasSubstr("last submitted seq 0"));
    EXPECT_THAT(error.message, HasSubstr("ranks 0-1 waited"));
  }
}

}  // namespace
}  // namespace npu
