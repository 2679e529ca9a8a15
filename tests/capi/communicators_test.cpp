// Joining, splitting, leaving, and the end of a run, with ranks as threads.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <future>

#include "tests/capi/rank_threads.hpp"

namespace npu {
namespace {

using test::DaemonProcess;
using test::Joined;
using test::run_ranks;
using test::small_config;

TEST(Join, WithoutADaemonIsUnavailableAndNamesTheSocket) {
  const test::TempDir dir;
  const std::string socket = dir.path() + "/none.sock";
  const npu_config_t config = small_config(socket);
  auto comm = reinterpret_cast<npu_comm_t>(uintptr_t{1});
  EXPECT_EQ(npu_comm_init_rank(&comm, 1, "test", 0, &config), NPU_UNAVAILABLE);
  EXPECT_NE(std::strstr(npu_last_error(), socket.c_str()), nullptr) << npu_last_error();
  EXPECT_EQ(comm, nullptr);
}

TEST(Join, AMissingRankIsNamedAtTheTimeout) {
  const DaemonProcess daemon;
  npu_config_t config = small_config(daemon.socket());
  config.join_timeout_ms = 50;
  npu_comm_t comm = nullptr;
  EXPECT_EQ(npu_comm_init_rank(&comm, 2, "test", 0, &config), NPU_DEADLINE_EXCEEDED);
  EXPECT_NE(std::strstr(npu_last_error(), "rank(s) 1 of 2"), nullptr) << npu_last_error();
}

TEST(Join, AnotherKeyIsAnotherLaunch) {
  const DaemonProcess daemon;
  npu_config_t config = small_config(daemon.socket());
  config.run_key = "first";
  run_ranks(config, 1, [&](Joined&) {
    npu_config_t other = config;
    other.run_key = "second";
    other.device = 1;
    npu_comm_t comm = nullptr;
    EXPECT_EQ(npu_comm_init_rank(&comm, 1, "test", 0, &other), NPU_UNAVAILABLE);
    EXPECT_NE(std::strstr(npu_last_error(), "another launch"), nullptr) << npu_last_error();
  });
}

TEST(UniqueId, IsARunNameAndDiffers) {
  npu_unique_id_t a, b;
  ASSERT_EQ(npu_get_unique_id(&a), NPU_SUCCESS);
  ASSERT_EQ(npu_get_unique_id(&b), NPU_SUCCESS);
  EXPECT_STRNE(a.name, b.name);
  const DaemonProcess daemon;
  const npu_config_t config = small_config(daemon.socket());
  npu_comm_t comm = nullptr;
  ASSERT_EQ(npu_comm_init_rank(&comm, 1, a.name, 0, &config), NPU_SUCCESS) << npu_last_error();
  char name[NPU_COMM_NAME_BYTES];
  EXPECT_EQ(npu_comm_name(comm, name, sizeof(name)), NPU_SUCCESS);
  EXPECT_STREQ(name, a.name);
  EXPECT_EQ(npu_comm_destroy(comm), NPU_SUCCESS) << npu_last_error();
}

TEST(Destroy, TwiceIsAnErrorAndTheDeviceIsFree) {
  const DaemonProcess daemon;
  for (int round = 0; round < 3; ++round) {
    run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
      EXPECT_EQ(npu_barrier(me.comm, nullptr), NPU_SUCCESS);
      EXPECT_EQ(npu_comm_destroy(me.comm), NPU_SUCCESS) << npu_last_error();
      EXPECT_EQ(npu_comm_destroy(me.comm), NPU_INVALID_ARGUMENT);
      EXPECT_NE(std::strstr(npu_last_error(), "destroyed"), nullptr);
      EXPECT_EQ(npu_barrier(me.comm, nullptr), NPU_INVALID_ARGUMENT);
      me.comm = nullptr;
    });
  }
}

TEST(Destroy, StreamsMayBeDestroyedAfterTheirRank) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.new_stream(), by_default = me.default_stream();
    EXPECT_EQ(npu_barrier(me.comm, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_SUCCESS) << npu_last_error();
    me.comm = nullptr;
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(npu_stream_synchronize(by_default), NPU_INVALID_ARGUMENT);
  });
}

TEST(Suspend, RefusesUntilResumeAndLosesNothing) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    int32_t* data = me.make<int32_t>(100, 1);
    const auto all_reduce = [&] {
      return npu_all_reduce(data, data, 100, NPU_INT32, NPU_SUM, me.comm, stream);
    };
    EXPECT_EQ(all_reduce(), NPU_SUCCESS);
    EXPECT_EQ(npu_comm_suspend(me.comm), NPU_SUCCESS);
    EXPECT_EQ(all_reduce(), NPU_FAILED_PRECONDITION);
    EXPECT_NE(std::strstr(npu_last_error(), "suspended"), nullptr) << npu_last_error();
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(npu_comm_resume(me.comm), NPU_SUCCESS);
    EXPECT_EQ(all_reduce(), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(data[i], 4);
  });
}

TEST(Environment, ABadVariableOfCollectivesIsRefusedAtInit) {
  const DaemonProcess daemon;
  const npu_config_t config = small_config(daemon.socket());
  npu_comm_t comm = nullptr;
  ::setenv("NPU_COLL_ALGO", "tree", 1);
  EXPECT_EQ(npu_comm_init_rank(&comm, 1, "test", 0, &config), NPU_INVALID_ARGUMENT);
  ::unsetenv("NPU_COLL_ALGO");
  EXPECT_NE(std::strstr(npu_last_error(), "NPU_COLL_ALGO='tree'"), nullptr) << npu_last_error();
}

TEST(Split, APartMayOutliveTheWhole) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 4, [](Joined& me) {
    npu_comm_t half = nullptr, quarter = nullptr;
    const auto color = static_cast<int32_t>(me.rank / 2);
    ASSERT_EQ(npu_comm_split(me.comm, color, 0, &half), NPU_SUCCESS) << npu_last_error();
    ASSERT_EQ(npu_comm_split(half, static_cast<int32_t>(me.rank), 0, &quarter), NPU_SUCCESS);
    const npu_stream_t stream = me.default_stream();
    int32_t* data = me.make<int32_t>(100, static_cast<int32_t>(me.rank));
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_SUCCESS) << npu_last_error();
    me.comm = nullptr;
    EXPECT_EQ(npu_all_reduce(data, data, 100, NPU_INT32, NPU_SUM, half, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_all_reduce(data, data, 100, NPU_INT32, NPU_SUM, quarter, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(data[i], me.rank < 2 ? 1 : 5);
    EXPECT_EQ(npu_comm_destroy(half), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(npu_mem_free(quarter, data), NPU_SUCCESS);
    EXPECT_EQ(npu_comm_destroy(quarter), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(npu_comm_destroy(quarter), NPU_INVALID_ARGUMENT);
  });
}

TEST(Split, MoreCommunicatorsThanARunMayHaveAreRefusedOnEveryRank) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    std::vector<npu_comm_t> made;
    npu_comm_t next = nullptr;
    npu_result_t last = NPU_SUCCESS;
    while ((last = npu_comm_split(me.comm, 0, 0, &next)) == NPU_SUCCESS && made.size() < 100)
      made.push_back(next);
    EXPECT_EQ(last, NPU_RESOURCE_EXHAUSTED);
    EXPECT_EQ(made.size(), 63u);
    EXPECT_EQ(next, nullptr);
    for (const npu_comm_t comm : made)
      EXPECT_EQ(npu_comm_destroy(comm), NPU_SUCCESS) << npu_last_error();
  });
}

TEST(EndOfTheRun, ARankThatDoesNotComeEndsItForEveryCall) {
  const DaemonProcess daemon;
  npu_config_t config = small_config(daemon.socket());
  config.timeout_ms = 50;
  std::promise<void> seen;
  run_ranks(config, 2, [&](Joined& me) {
    const npu_stream_t stream = me.new_stream();
    if (me.rank == 1) {
      seen.get_future().wait();
      EXPECT_EQ(npu_barrier(me.comm, stream), NPU_DEADLINE_EXCEEDED);
    } else {
      EXPECT_EQ(npu_barrier(me.comm, stream), NPU_SUCCESS);
      EXPECT_EQ(npu_stream_synchronize(stream), NPU_DEADLINE_EXCEEDED);
      EXPECT_NE(std::strstr(npu_last_error(), "rank 1 did not arrive"), nullptr)
          << npu_last_error();
      int done = 0;
      EXPECT_EQ(npu_stream_query(stream, &done), NPU_SUCCESS);
      EXPECT_EQ(done, 1);
      EXPECT_EQ(npu_barrier(me.comm, stream), NPU_DEADLINE_EXCEEDED);
      seen.set_value();
    }
    npu_result_t error = NPU_SUCCESS;
    EXPECT_EQ(npu_comm_async_error(me.comm, &error), NPU_SUCCESS);
    EXPECT_EQ(error, NPU_DEADLINE_EXCEEDED);
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS);
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_DEADLINE_EXCEEDED);
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_INVALID_ARGUMENT);
    me.comm = nullptr;
  });
}

TEST(EndOfTheRun, AProcessThatEndsWithoutDestroyIsNamedToTheOthers) {
  const DaemonProcess daemon;
  const npu_config_t config = small_config(daemon.socket());
  npu_comm_t comm = nullptr;
  int both_joined[2];
  ASSERT_EQ(::pipe(both_joined), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool joined = npu_comm_init_rank(&comm, 2, "test", 1, &config) == NPU_SUCCESS;
    ::_exit(joined && ::read(both_joined[0], &byte, 1) == 1 ? 0 : 1);
  }
  ASSERT_EQ(npu_comm_init_rank(&comm, 2, "test", 0, &config), NPU_SUCCESS) << npu_last_error();
  ASSERT_EQ(::write(both_joined[1], "x", 1), 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  npu_result_t result = npu_barrier(comm, nullptr);
  if (result == NPU_SUCCESS) result = npu_stream_synchronize(nullptr);
  EXPECT_EQ(result, NPU_ABORTED);
  EXPECT_NE(std::strstr(npu_last_error(), "rank 1 (pid"), nullptr) << npu_last_error();
  EXPECT_EQ(npu_comm_destroy(comm), NPU_ABORTED);
  ::close(both_joined[0]);
  ::close(both_joined[1]);
  ASSERT_EQ(npu_comm_init_rank(&comm, 1, "test", 0, &config), NPU_SUCCESS) << npu_last_error();
  EXPECT_EQ(npu_comm_destroy(comm), NPU_SUCCESS) << npu_last_error();
}

TEST(EndOfTheRun, ALostDaemonIsSaidByEveryCall) {
  DaemonProcess daemon;
  const npu_config_t config = small_config(daemon.socket());
  npu_comm_t comm = nullptr;
  ASSERT_EQ(npu_comm_init_rank(&comm, 1, "test", 0, &config), NPU_SUCCESS) << npu_last_error();
  daemon.stop(SIGKILL);
  npu_result_t last = NPU_SUCCESS;
  while (last == NPU_SUCCESS) {
    last = npu_barrier(comm, nullptr);
    if (last == NPU_SUCCESS) last = npu_stream_synchronize(nullptr);
  }
  EXPECT_EQ(last, NPU_UNAVAILABLE);
  npu_result_t error = NPU_SUCCESS;
  EXPECT_EQ(npu_comm_async_error(comm, &error), NPU_SUCCESS);
  EXPECT_EQ(error, NPU_UNAVAILABLE);
  EXPECT_EQ(npu_comm_destroy(comm), NPU_UNAVAILABLE);
}

}  // namespace
}  // namespace npu
