// What the C interface refuses, and in which words.
#include <cmath>
#include <limits>

#include "tests/capi/rank_threads.hpp"

namespace npu {
namespace {

using test::DaemonProcess;
using test::Joined;
using test::run_ranks;
using test::small_config;

bool says(const char* word) {
  return std::string(npu_last_error()).find(word) != std::string::npos;
}

/// Every operation with the given handles and otherwise good arguments.
std::vector<npu_result_t> all_operations(float* data, npu_dtype_t dtype, npu_comm_t comm,
                                         npu_stream_t stream) {
  constexpr auto op = NPU_SUM;
  const uint64_t counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, displs[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const npu_send_recv_item_t item = {NPU_SEND, data, 1, dtype, 0};
  float* recv = data + 8;
  return {npu_all_reduce(data, recv, 1, dtype, op, comm, stream),
          npu_all_reduce_scaled(data, recv, 1, dtype, 1, comm, stream),
          npu_reduce(data, recv, 1, dtype, op, 0, comm, stream),
          npu_reduce_scaled(data, recv, 1, dtype, 1, 0, comm, stream),
          npu_broadcast(data, recv, 1, dtype, 0, comm, stream),
          npu_bcast(data, 1, dtype, 0, comm, stream),
          npu_all_gather(data, recv, 1, dtype, comm, stream),
          npu_all_gather_v(data, 1, recv, counts, displs, dtype, comm, stream),
          npu_reduce_scatter(data, recv, 1, dtype, op, comm, stream),
          npu_reduce_scatter_scaled(data, recv, 1, dtype, 1, comm, stream),
          npu_reduce_scatter_v(data, counts, displs, recv, 1, dtype, op, comm, stream),
          npu_scatter(data, recv, 1, dtype, 0, comm, stream),
          npu_gather(data, recv, 1, dtype, 0, comm, stream),
          npu_all_to_all(data, recv, 1, dtype, comm, stream),
          npu_all_to_all_v(data, counts, displs, recv, counts, displs, dtype, comm, stream),
          npu_send(data, 1, dtype, 0, comm, stream),
          npu_recv(data, 1, dtype, 0, comm, stream),
          npu_batch_send_recv(&item, 1, comm, stream)};
}

void expect_all_refused(const std::vector<npu_result_t>& results, size_t n) {
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(results[i], NPU_INVALID_ARGUMENT) << "operation " << i;
}

TEST(Arguments, ANullOrForeignCommunicatorIsRefusedByEveryCall) {
  float data[32] = {};
  for (const uintptr_t number : {uintptr_t{0}, uintptr_t{17}, uintptr_t{0x12345678}}) {
    const auto comm = reinterpret_cast<npu_comm_t>(number);
    expect_all_refused(all_operations(data, NPU_FLOAT32, comm, nullptr), 18);
    npu_comm_t other = nullptr;
    npu_stream_t stream = nullptr;
    npu_result_t error = NPU_SUCCESS;
    uint32_t value = 0;
    uint64_t copies = 0;
    void* memory = data;
    char name[NPU_COMM_NAME_BYTES];
    EXPECT_EQ(npu_barrier(comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_split(comm, 0, 0, &other), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_destroy(comm), NPU_INVALID_ARGUMENT);
    EXPECT_TRUE(says("npu_comm_destroy"));
    EXPECT_EQ(npu_comm_rank(comm, &value), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_size(comm, &value), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_name(comm, name, sizeof(name)), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_async_error(comm, &error), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_staged_copies(comm, &copies), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_suspend(comm), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_resume(comm), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_default_stream(comm, &stream), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_stream_create(comm, &stream), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_mem_alloc(comm, 1, &memory), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(npu_mem_free(comm, data), NPU_INVALID_ARGUMENT);
  }
}

TEST(Arguments, ANullOrForeignStreamIsRefused) {
  int done = 0;
  const auto stream = reinterpret_cast<npu_stream_t>(uintptr_t{18});
  EXPECT_EQ(npu_stream_synchronize(stream), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_stream_synchronize_timeout(stream, 1), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_stream_query(stream, &done), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_stream_query(stream, nullptr), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_stream_destroy(stream), NPU_INVALID_ARGUMENT);
  EXPECT_EQ(npu_stream_destroy(nullptr), NPU_INVALID_ARGUMENT);
}

TEST(Arguments, NullAnswersAreRefused) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 1, [](Joined& me) {
    char name[4];
    EXPECT_EQ(npu_comm_rank(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_size(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_name(me.comm, nullptr, 9), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_name(me.comm, name, sizeof(name)), NPU_INVALID_ARGUMENT);
    EXPECT_TRUE(says("5 bytes"));
    EXPECT_EQ(npu_comm_async_error(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_staged_copies(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_split(me.comm, 0, 0, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_default_stream(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_stream_create(me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_mem_alloc(me.comm, 1, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_get_unique_id(nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_comm_init_rank(nullptr, 1, "x", 0, nullptr), NPU_INVALID_ARGUMENT);
  });
}

TEST(Arguments, EnumsOutOfRangeAreRefusedAndNothingIsEnqueued) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 1, [](Joined& me) {
    float* data = me.make<float>(32);
    const auto no_type = static_cast<npu_dtype_t>(12);
    expect_all_refused(all_operations(data, no_type, me.comm, nullptr), 18);
    EXPECT_TRUE(says("12"));
    const uint64_t counts[1] = {1}, displs[1] = {0};
    for (const auto op : {NPU_PREMUL_SUM, static_cast<npu_redop_t>(6), NPU_REDOP_MAX}) {
      EXPECT_EQ(npu_all_reduce(data, data, 1, NPU_FLOAT32, op, me.comm, nullptr),
                NPU_INVALID_ARGUMENT);
      EXPECT_TRUE(says("npu_all_reduce_scaled"));
      EXPECT_EQ(npu_reduce(data, data, 1, NPU_FLOAT32, op, 0, me.comm, nullptr),
                NPU_INVALID_ARGUMENT);
      EXPECT_EQ(npu_reduce_scatter(data, data, 1, NPU_FLOAT32, op, me.comm, nullptr),
                NPU_INVALID_ARGUMENT);
      EXPECT_EQ(
          npu_reduce_scatter_v(data, counts, displs, data, 1, NPU_FLOAT32, op, me.comm, nullptr),
          NPU_INVALID_ARGUMENT);
    }
    for (const double scale : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      EXPECT_EQ(npu_all_reduce_scaled(data, data, 1, NPU_FLOAT32, scale, me.comm, nullptr),
                NPU_INVALID_ARGUMENT);
    }
    npu_send_recv_item_t item = {static_cast<npu_transfer_t>(2), data, 1, NPU_FLOAT32, 0};
    EXPECT_EQ(npu_batch_send_recv(&item, 1, me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_stream_synchronize(nullptr), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(data[8], 0.0f);
  });
}

TEST(Arguments, NullBuffersAndImpossibleCountsAreRefused) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 1, [](Joined& me) {
    float* data = me.make<float>(64);
    const uint64_t counts[1] = {32}, displs[1] = {0}, huge[1] = {UINT64_MAX / 2};
    constexpr auto kF32 = NPU_FLOAT32;
    const npu_result_t refused[] = {
        npu_all_reduce(nullptr, data, 1, kF32, NPU_SUM, me.comm, nullptr),
        npu_all_reduce(data, nullptr, 32, kF32, NPU_SUM, me.comm, nullptr),
        npu_all_reduce(data, data, UINT64_MAX, kF32, NPU_SUM, me.comm, nullptr),
        npu_all_reduce(data, data, uint64_t{1} << 30, kF32, NPU_SUM, me.comm, nullptr),
        npu_bcast(nullptr, 1, kF32, 0, me.comm, nullptr),
        npu_all_gather_v(data, 32, data, nullptr, displs, kF32, me.comm, nullptr),
        npu_all_gather_v(data, 32, data, counts, nullptr, kF32, me.comm, nullptr),
        npu_all_gather_v(data, 31, data, counts, displs, kF32, me.comm, nullptr),
        npu_reduce_scatter_v(data, counts, displs, data, 31, kF32, NPU_SUM, me.comm, nullptr),
        npu_all_to_all_v(data, huge, displs, data + 32, huge, displs, kF32, me.comm, nullptr),
        npu_all_to_all_v(data, counts, huge, data + 32, counts, huge, kF32, me.comm, nullptr),
        npu_send(nullptr, 1, kF32, 0, me.comm, nullptr),
        npu_batch_send_recv(nullptr, 1, me.comm, nullptr),
    };
    for (size_t i = 0; i < std::size(refused); ++i)
      EXPECT_EQ(refused[i], NPU_INVALID_ARGUMENT) << "call " << i;
    const std::vector<npu_send_recv_item_t> items(NPU_BATCH_ITEMS + 1,
                                                  {NPU_SEND, data, 1, kF32, 0});
    EXPECT_EQ(npu_batch_send_recv(items.data(), NPU_BATCH_ITEMS + 1, me.comm, nullptr),
              NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_batch_send_recv(nullptr, 0, me.comm, nullptr), NPU_SUCCESS);
    EXPECT_EQ(npu_all_reduce(nullptr, nullptr, 0, kF32, NPU_SUM, me.comm, nullptr), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(nullptr), NPU_SUCCESS) << npu_last_error();
  });
}

TEST(Arguments, ARootOrPeerThatDoesNotExistIsAnErrorOfEveryRankAndTheNextOperationWorks) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 3, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    float* data = me.make<float>(100, 1.0f);
    const uint32_t root = me.rank == 1 ? 3 : 2;
    EXPECT_EQ(npu_bcast(data, 100, NPU_FLOAT32, root, me.comm, stream), NPU_SUCCESS);
    EXPECT_NE(npu_stream_synchronize(stream), NPU_SUCCESS);
    EXPECT_EQ(npu_scatter(data, data, 10, NPU_FLOAT32, 7, me.comm, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_INVALID_ARGUMENT);
    EXPECT_TRUE(says("root"));
    EXPECT_EQ(npu_send(data, 100, NPU_FLOAT32, 3, me.comm, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_all_reduce(data, data, 100, NPU_FLOAT32, NPU_SUM, me.comm, stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(data[i], 3.0f);
  });
}

TEST(Arguments, AStreamOfAnotherRankOrADestroyedOneIsRefused) {
  const DaemonProcess daemon;
  npu_stream_t of_rank_0 = nullptr;
  run_ranks(small_config(daemon.socket()), 2, [&](Joined& me) {
    const npu_stream_t own = me.default_stream();
    if (me.rank == 0) of_rank_0 = me.new_stream();
    EXPECT_EQ(npu_barrier(me.comm, own), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(own), NPU_SUCCESS) << npu_last_error();
    if (me.rank == 1) {
      EXPECT_EQ(npu_barrier(me.comm, of_rank_0), NPU_INVALID_ARGUMENT);
      EXPECT_TRUE(says("rank 1"));
    }
    EXPECT_EQ(npu_stream_synchronize(nullptr), NPU_FAILED_PRECONDITION);
    EXPECT_TRUE(says("npu_comm_default_stream"));
    EXPECT_EQ(npu_barrier(me.comm, own), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(own), NPU_SUCCESS) << npu_last_error();
    if (me.rank == 0) {
      EXPECT_EQ(npu_stream_destroy(of_rank_0), NPU_SUCCESS) << npu_last_error();
      EXPECT_EQ(npu_stream_destroy(of_rank_0), NPU_INVALID_ARGUMENT);
      EXPECT_EQ(npu_barrier(me.comm, of_rank_0), NPU_INVALID_ARGUMENT);
      EXPECT_EQ(npu_stream_destroy(own), NPU_INVALID_ARGUMENT);
      EXPECT_TRUE(says("default stream"));
    }
  });
}

TEST(Memory, IsAlignedReusedAndFreedOnce) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 1, [](Joined& me) {
    void* memory = nullptr;
    int elsewhere = 0;
    EXPECT_EQ(npu_mem_alloc(me.comm, uint64_t{1} << 30, &memory), NPU_RESOURCE_EXHAUSTED);
    EXPECT_TRUE(says("1.0 GiB wanted"));
    EXPECT_EQ(memory, nullptr);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(npu_mem_alloc(me.comm, 1'000'001, &memory), NPU_SUCCESS) << npu_last_error();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 128, 0u);
      EXPECT_EQ(npu_mem_free(me.comm, memory), NPU_SUCCESS);
    }
    EXPECT_EQ(npu_mem_free(me.comm, memory), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_mem_free(me.comm, &elsewhere), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_mem_free(me.comm, nullptr), NPU_SUCCESS);
  });
}

TEST(Text, EveryResultHasAName) {
  EXPECT_STREQ(npu_error_string(NPU_SUCCESS), "success");
  for (int i = NPU_SUCCESS; i <= NPU_INTERNAL; ++i)
    EXPECT_STRNE(npu_error_string(static_cast<npu_result_t>(i)), "unknown result") << i;
  EXPECT_STREQ(npu_error_string(static_cast<npu_result_t>(4711)), "unknown result");
}

TEST(Text, TheLastErrorBelongsToItsThread) {
  EXPECT_EQ(npu_barrier(nullptr, nullptr), NPU_INVALID_ARGUMENT);
  EXPECT_TRUE(says("npu_barrier"));
  std::thread([] { EXPECT_STREQ(npu_last_error(), ""); }).join();
  EXPECT_TRUE(says("npu_barrier"));
}

}  // namespace
}  // namespace npu
