// Ranks of the C interface as threads of the test, against a daemon.
#pragma once

#include <gtest/gtest.h>
#include <npu/npu.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.hpp"

namespace npu::test {

inline npu_config_t small_config(const std::string& socket) {
  npu_config_t config = NPU_CONFIG_INIT;
  config.socket = socket.c_str();
  config.arena_bytes = uint64_t{2} << 20;
  config.join_timeout_ms = 20'000;
  config.timeout_ms = 20'000;
  return config;
}

/// A rank that has joined; it leaves by itself unless the test has destroyed `comm`.
struct Joined {
  npu_comm_t comm = nullptr;
  uint32_t rank = 0, size = 0;

  /// `n` elements of device memory, all `fill`.
  template <typename T>
  [[nodiscard]] T* make(uint64_t n, T fill = T{}) const {
    void* memory = nullptr;
    EXPECT_EQ(npu_mem_alloc(comm, n * sizeof(T), &memory), NPU_SUCCESS) << npu_last_error();
    T* elements = static_cast<T*>(memory);
    for (uint64_t i = 0; i < n; ++i) elements[i] = fill;
    return elements;
  }
  [[nodiscard]] npu_stream_t default_stream() const {
    npu_stream_t stream = nullptr;
    EXPECT_EQ(npu_comm_default_stream(comm, &stream), NPU_SUCCESS) << npu_last_error();
    return stream;
  }
  [[nodiscard]] npu_stream_t new_stream() const {
    npu_stream_t stream = nullptr;
    EXPECT_EQ(npu_stream_create(comm, &stream), NPU_SUCCESS) << npu_last_error();
    return stream;
  }
};

inline void run_ranks(const npu_config_t& config, uint32_t n,
                      const std::function<void(Joined&)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      Joined me{nullptr, r, n};
      ASSERT_EQ(npu_comm_init_rank(&me.comm, n, "test", r, &config), NPU_SUCCESS)
          << npu_last_error();
      body(me);
      if (me.comm == nullptr) return;
      EXPECT_EQ(npu_comm_destroy(me.comm), NPU_SUCCESS) << npu_last_error();
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace npu::test
