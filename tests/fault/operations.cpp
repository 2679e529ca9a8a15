// What ranks do in a fault test: operations whose every element is known.
#include <algorithm>
#include <cstring>

#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

constexpr uint64_t kCount =
    96'000;  // floats: several slices of the engine, and divisible by 2 to 6 ranks
constexpr uint64_t kRecvAt = 4 << 20;  // bytes: half of the arena

/// Small integers: sums are exact whatever their order. Differs by rank, element and operation.
float value_of(uint32_t rank, uint64_t element, uint64_t i) noexcept {
  return static_cast<float>(rank + 1) + static_cast<float>((element + i) % 7);
}

float sum_of(uint32_t world, uint64_t element, uint64_t i) noexcept {
  return static_cast<float>(world * (world + 1) / 2) +
         static_cast<float>(world) * static_cast<float>((element + i) % 7);
}

/// Of the check: no integers, so that the order of additions shows in the bits.
float fraction_of(uint32_t rank, uint64_t element) noexcept {
  return 1.0F / static_cast<float>(1 + (rank * 7919 + element * 31) % 1009);
}

struct Buffers {
  float* send;
  float* recv;
};

Buffers buffers_of(Rank& rank) {
  std::byte* const arena = rank.device.arena().data();
  return {reinterpret_cast<float*>(arena), reinterpret_cast<float*>(arena + kRecvAt)};
}

Result<void> finish(Result<client::Work> work) {
  if (!work) return tl::unexpected(std::move(work.error()));
  if (auto ended = work->wait(); !ended) return tl::unexpected(std::move(ended.error()));
  return {};
}

Result<void> submit_and_wait(Rank& rank, Op op, uint64_t i,
                             const client::CollectiveOptions& options) {
  const auto [send, recv] = buffers_of(rank);
  client::Communicator& all = rank.all();
  client::CollectiveOptions o = options;
  const uint64_t part = kCount / rank.world;
  switch (op) {
    case Op::kDirect:
    case Op::kRing:
      o.algorithm = op == Op::kRing ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
      return finish(all.all_reduce(send, recv, kCount, DType::kFloat32, ReduceOp::kSum, o));
    case Op::kBroadcast:
      return finish(all.broadcast(send, recv, kCount, DType::kFloat32,
                                  static_cast<uint32_t>(i % rank.world), o));
    case Op::kAllGather:
      return finish(all.all_gather(send, recv, part, DType::kFloat32, o));
    case Op::kReduceScatter:
      return finish(all.reduce_scatter(send, recv, part, DType::kFloat32, ReduceOp::kSum, o));
    case Op::kAllToAll:
      return finish(all.all_to_all(send, recv, part, DType::kFloat32, o));
    case Op::kBarrier:
      return finish(all.barrier(o));
  }
  return {};
}

/// What element `e` of the result must be.
float expected(const Rank& rank, Op op, uint64_t i, uint64_t e) {
  const uint64_t part = kCount / rank.world;
  const auto from = static_cast<uint32_t>(e / part);
  switch (op) {
    case Op::kBroadcast:
      return value_of(static_cast<uint32_t>(i % rank.world), e, i);
    case Op::kAllGather:
      return value_of(from, e % part, i);
    case Op::kReduceScatter:
      return sum_of(rank.world, rank.id() * part + e, i);
    case Op::kAllToAll:
      return value_of(from, rank.id() * part + e % part, i);
    default:
      return sum_of(rank.world, e, i);
  }
}

uint64_t received(const Rank& rank, Op op) {
  if (op == Op::kBarrier) return 0;
  return op == Op::kReduceScatter ? kCount / rank.world : kCount;
}

}  // namespace

const char* op_name(Op op) noexcept {
  constexpr const char* kNames[] = {
      "direct all-reduce", "ring all-reduce", "broadcast", "all-gather",
      "reduce-scatter",    "all-to-all",      "barrier"};
  return kNames[static_cast<size_t>(op)];
}

Result<void> operate(Rank& rank, Op op, uint64_t i, const client::CollectiveOptions& options) {
  const auto [send, recv] = buffers_of(rank);
  for (uint64_t e = 0; e < kCount; ++e)
    send[e] = i == 0 ? fraction_of(rank.id(), e) : value_of(rank.id(), e, i);
  std::fill_n(recv, kCount, -1.0F);
  const uint64_t begin = now_ns();
  NPU_TRY_VOID(submit_and_wait(rank, op, i, options));
  if (const uint64_t ns = now_ns() - begin; i != 0 && ns > rank.report.slowest_ns.load()) {
    rank.report.slowest_ns.store(ns);
    rank.report.slowest.store(i);
  }
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (uint64_t e = 0; e < received(rank, op); ++e) {
    if (i != 0 && recv[e] != expected(rank, op, i, e)) {
      return fail(Code::kInternal, "{} {}: element {} is {} where {} was expected", op_name(op), i,
                  e, recv[e], expected(rank, op, i, e));
    }
    uint32_t bits = 0;
    std::memcpy(&bits, &recv[e], sizeof(bits));
    digest = (digest ^ bits) * 0x100000001b3ULL;
  }
  if (i == 0) rank.report.digest.store(digest);
  return {};
}

int fail_with(Rank& rank, const Error& error) {
  rank.report.code = static_cast<uint8_t>(error.code);
  shm::put_text(rank.report.text, error.message);
  rank.report.ended_ns.store(now_ns());
  return 1;
}

int operate_until_failure(Rank& rank, Op op, const client::CollectiveOptions& options) {
  for (uint64_t i = 1;; ++i) {
    if (const auto ended = operate(rank, op, i, options); !ended) {
      (void)fail_with(rank, ended.error());
      return 0;
    }
    rank.report.done.store(i);
  }
}

int operate_times(Rank& rank, Op op, uint64_t count) {
  for (uint64_t i = 1; i <= count; ++i) {
    if (const auto ended = operate(rank, op, i); !ended) return fail_with(rank, ended.error());
    rank.report.done.store(i);
  }
  return 0;
}

}  // namespace npu::fault
