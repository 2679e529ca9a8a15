// Data and layout: every operation, type, reduction, size and placement against a scalar model.
#include <cstring>

#include "tests/collectives/rank_body.hpp"
#include "tests/unit/daemon/kernels/reference.hpp"

namespace npu::test {
namespace {

using client::CollectiveOptions;
using client::Layout;
using daemon::testing::Bytes;
using daemon::testing::Fill;
using daemon::testing::make_input;
using daemon::testing::reference_fold;

constexpr double kScale = 0.375;  // premulsum

/// What every rank passes: `elements` of rank r.
Bytes input_of(uint32_t r, DType dtype, uint64_t elements, uint64_t seed) {
  return make_input(dtype, elements, Fill::kModerate, seed * 16 + r);
}

std::vector<Bytes> all_inputs(uint32_t n, DType dtype, uint64_t elements, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (uint32_t r = 0; r < n; ++r) inputs.push_back(input_of(r, dtype, elements, seed));
  return inputs;
}

struct Trial {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t count = 1;
  bool in_place = false;
  shm::Algorithm algorithm = shm::Algorithm::kDirect;
  uint64_t shift = 0;
  uint64_t seed = 0;
};

std::string all_reduce(Rank& rank, const Trial& t) {
  const uint64_t element = dtype_size(t.dtype), bytes = t.count * element;
  const auto inputs = all_inputs(rank.size(), t.dtype, t.count, t.seed);
  Buffers buffers(rank.arena);
  std::byte* send = buffers.take(bytes, element, t.shift);
  std::byte* recv = t.in_place ? send : buffers.take(bytes, element, t.shift + 1);
  if (bytes > 0) std::memcpy(send, inputs[rank.id()].data(), bytes);
  const auto error =
      error_of(rank.world.all_reduce(send, recv, t.count, t.dtype, t.op,
                                     {.algorithm = t.algorithm, .timeout = {}, .scale = kScale}));
  EXPECT_RANK(!error, "{}", error->message);
  const auto want = reference_fold(t.dtype, t.op, inputs, t.count, kScale);
  EXPECT_RANK(bytes == 0 || std::memcmp(recv, want.result.data(), bytes) == 0,
              "{} {} count {} in place {} algorithm {}", dtype_name(t.dtype), reduce_op_name(t.op),
              t.count, t.in_place, static_cast<int>(t.algorithm));
  EXPECT_RANK(t.in_place || bytes == 0 || std::memcmp(send, inputs[rank.id()].data(), bytes) == 0,
              "the send buffer of rank {} changed", rank.id());
  EXPECT_RANK(buffers.guards_hold(), "count {}", t.count);
  return {};
}

std::string reduce(Rank& rank, const Trial& t, uint32_t root) {
  const uint64_t element = dtype_size(t.dtype), bytes = t.count * element;
  const auto inputs = all_inputs(rank.size(), t.dtype, t.count, t.seed);
  Buffers buffers(rank.arena);
  std::byte* send = buffers.take(bytes, element, t.shift);
  std::byte* recv = t.in_place ? send : buffers.take(bytes, element);
  std::memcpy(send, inputs[rank.id()].data(), bytes);
  const bool mine = rank.id() == root;
  EXPECT_RANK(done(rank.world.reduce(send, mine ? recv : nullptr, t.count, t.dtype, t.op, root,
                                     {.timeout = {}, .scale = kScale})));
  const auto want = reference_fold(t.dtype, t.op, inputs, t.count, kScale);
  EXPECT_RANK(!mine || std::memcmp(recv, want.result.data(), bytes) == 0);
  EXPECT_RANK(mine || std::memcmp(send, inputs[rank.id()].data(), bytes) == 0);
  EXPECT_RANK(buffers.guards_hold());
  return {};
}

std::string reduce_scatter(Rank& rank, const Trial& t) {
  const uint64_t element = dtype_size(t.dtype), bytes = t.count * element;
  const uint64_t all = t.count * rank.size();
  const auto inputs = all_inputs(rank.size(), t.dtype, all, t.seed);
  Buffers buffers(rank.arena);
  std::byte* send = buffers.take(all * element, element, t.shift);
  std::byte* recv = t.in_place ? send + rank.id() * bytes : buffers.take(bytes, element, t.shift);
  std::memcpy(send, inputs[rank.id()].data(), all * element);
  EXPECT_RANK(done(rank.world.reduce_scatter(send, recv, t.count, t.dtype, t.op,
                                             {.timeout = {}, .scale = kScale})));
  const auto want = reference_fold(t.dtype, t.op, inputs, all, kScale);
  EXPECT_RANK(std::memcmp(recv, want.result.data() + rank.id() * bytes, bytes) == 0, "{} {} {}",
              dtype_name(t.dtype), reduce_op_name(t.op), t.count);
  EXPECT_RANK(buffers.guards_hold());
  return {};
}

// 1 2 3 4 11 21: bits of the scalar fold, of every rank, in place and not, one rank included.
std::string every_type_and_reduction(Rank& rank) {
  uint64_t seed = 1;
  for (uint8_t d = 0; d < kDTypeCount; ++d) {
    for (uint8_t o = 0; o < kReduceOpCount; ++o) {
      for (const uint64_t count : {uint64_t{3}, uint64_t{257}}) {
        for (const bool in_place : {true, false}) {
          Trial t{.dtype = static_cast<DType>(d),
                  .op = static_cast<ReduceOp>(o),
                  .count = count,
                  .in_place = in_place,
                  .shift = rank.id() % 3,
                  .seed = ++seed};
          if (auto bad = all_reduce(rank, t); !bad.empty()) return bad;
          t.algorithm = shm::Algorithm::kRing;
          if (auto bad = all_reduce(rank, t); !bad.empty()) return bad;
          if (auto bad = reduce(rank, t, static_cast<uint32_t>(seed % rank.size())); !bad.empty())
            return bad;
          if (auto bad = reduce_scatter(rank, t); !bad.empty()) return bad;
        }
      }
    }
  }
  return {};
}

// 5 7 9: odd sizes, nothing, fewer elements than ranks; a different misalignment on each rank.
std::string sizes_and_alignments(Rank& rank) {
  uint64_t seed = 1000;
  for (const uint64_t count :
       {0ul, 1ul, 7ul, 31ul, 33ul, 63ul, 65ul, 1023ul, 1025ul, 4099ul, 16'384ul, 65'537ul}) {
    for (const auto algorithm : {shm::Algorithm::kDirect, shm::Algorithm::kRing}) {
      const Trial t{.dtype = count % 2 == 0 ? DType::kFloat16 : DType::kFloat32,
                    .count = count,
                    .in_place = count % 3 == 0,
                    .algorithm = algorithm,
                    .shift = 1 + rank.id(),
                    .seed = ++seed};
      if (auto bad = all_reduce(rank, t); !bad.empty()) return bad;
    }
  }
  return {};
}

/// Element i of what `r` contributes to a data movement.
uint16_t token(uint32_t r, uint64_t i) { return static_cast<uint16_t>(r * 4099 + i * 7 + 1); }

// 12: every root; non-roots may pass null.
std::string every_root(Rank& rank) {
  const uint32_t n = rank.size();
  for (uint32_t root = 0; root < n; ++root) {
    for (const uint64_t count : {1ul, 30ul, 5003ul}) {
      Buffers buffers(rank.arena);
      auto* all = reinterpret_cast<uint16_t*>(buffers.take(count * n * 2, 2));
      auto* one = reinterpret_cast<uint16_t*>(buffers.take(count * 2, 2));
      const bool mine = rank.id() == root;
      for (uint64_t i = 0; i < count * n; ++i) all[i] = token(rank.id(), i);
      EXPECT_RANK(done(rank.world.scatter(mine ? all : nullptr, one, count, DType::kUint16, root)));
      for (uint64_t i = 0; i < count; ++i) {
        EXPECT_RANK(one[i] == token(root, rank.id() * count + i), "scatter root {} at {}", root, i);
      }
      for (uint64_t i = 0; i < count; ++i) one[i] = token(rank.id(), i);
      EXPECT_RANK(done(rank.world.gather(one, mine ? all : nullptr, count, DType::kUint16, root)));
      for (uint64_t i = 0; mine && i < count * n; ++i) {
        EXPECT_RANK(all[i] == token(static_cast<uint32_t>(i / count), i % count));
      }
      EXPECT_RANK(done(rank.world.broadcast(mine ? all : nullptr, one, count, DType::kUint16, root,
                                            {.timeout = {}})) ||
                      count == 0,
                  "broadcast");
      for (uint64_t i = 0; i < count; ++i) {
        EXPECT_RANK(one[i] == token(0, i), "root gathered rank 0's part first");
      }
      EXPECT_RANK(buffers.guards_hold());
    }
  }
  return {};
}

// 13: zero counts, gaps, reversed displacements.
std::string vector_forms(Rank& rank) {
  const uint32_t n = rank.size(), me = rank.id();
  for (const uint64_t base : {0ul, 1ul, 1000ul, 70'000ul}) {
    std::vector<uint64_t> counts(n), displs(n);
    uint64_t end = 0;
    for (uint32_t k = 0; k < n; ++k) {
      const uint32_t r = n - 1 - k;  // reversed, with a gap of 3 after each
      counts[r] = r % 3 == 1 ? 0 : base + r;
      displs[r] = end;
      end += counts[r] + 3;
    }
    Buffers buffers(rank.arena);
    auto* send = reinterpret_cast<uint16_t*>(buffers.take(end * 2, 2));
    auto* recv = reinterpret_cast<uint16_t*>(buffers.take(end * 2, 2));
    for (uint64_t i = 0; i < end; ++i) {
      send[i] = token(me, i);
      recv[i] = 0xffff;
    }
    EXPECT_RANK(done(rank.world.all_gather_v(send, recv, {counts, displs}, DType::kUint16)));
    uint64_t written = 0;
    for (uint32_t r = 0; r < n; ++r) {
      written += counts[r];
      for (uint64_t i = 0; i < counts[r]; ++i) EXPECT_RANK(recv[displs[r] + i] == token(r, i));
    }
    uint64_t untouched = 0;
    for (uint64_t i = 0; i < end; ++i) untouched += recv[i] == 0xffff;
    EXPECT_RANK(untouched >= end - written, "gaps stay");
    EXPECT_RANK(done(
        rank.world.reduce_scatter_v(send, recv, {counts, displs}, DType::kUint16, ReduceOp::kSum)));
    for (uint64_t i = 0; i < counts[me]; ++i) {
      uint16_t sum = 0;
      for (uint32_t r = 0; r < n; ++r) sum = static_cast<uint16_t>(sum + token(r, displs[me] + i));
      EXPECT_RANK(recv[i] == sum, "base {} at {}", base, i);
    }
    EXPECT_RANK(buffers.guards_hold());
  }
  return {};
}

// 13 14: all-to-all-v with counts of its own for every pair, and equal counts as all-to-all.
std::string exchange(Rank& rank) {
  const uint32_t n = rank.size(), me = rank.id();
  const auto count_of = [](uint32_t from, uint32_t to) -> uint64_t {
    return (from + 2 * to) % 4 == 0 ? 0 : 5 + 11 * from + to;
  };
  std::vector<uint64_t> sc(n), sd(n), rc(n), rd(n);
  uint64_t send_end = 0, recv_end = 0;
  for (uint32_t k = 0; k < n; ++k) {
    const uint32_t r = (k + me) % n;  // another order on each rank
    sc[r] = count_of(me, r);
    rc[r] = count_of(r, me);
    sd[r] = send_end;
    rd[r] = recv_end;
    send_end += sc[r] + 1;
    recv_end += rc[r] + 2;
  }
  Buffers buffers(rank.arena);
  auto* send = reinterpret_cast<uint16_t*>(buffers.take(send_end * 2, 2));
  auto* recv = reinterpret_cast<uint16_t*>(buffers.take(recv_end * 2, 2));
  for (uint32_t r = 0; r < n; ++r) {
    for (uint64_t i = 0; i < sc[r]; ++i) send[sd[r] + i] = token(me * n + r, i);
  }
  EXPECT_RANK(done(rank.world.all_to_all_v(send, {sc, sd}, recv, {rc, rd}, DType::kUint16)));
  for (uint32_t r = 0; r < n; ++r) {
    for (uint64_t i = 0; i < rc[r]; ++i) EXPECT_RANK(recv[rd[r] + i] == token(r * n + me, i));
  }
  EXPECT_RANK(buffers.guards_hold());
  // Equal counts: the v form moves what the plain one moves.
  constexpr uint64_t kCount = 129;
  const std::vector<uint64_t> equal(n, kCount);
  std::vector<uint64_t> displs(n);
  for (uint32_t r = 0; r < n; ++r) displs[r] = r * kCount;
  auto* from = reinterpret_cast<uint16_t*>(buffers.take(kCount * n * 2, 2));
  auto* plain = reinterpret_cast<uint16_t*>(buffers.take(kCount * n * 2, 2));
  auto* vectored = reinterpret_cast<uint16_t*>(buffers.take(kCount * n * 2, 2));
  for (uint64_t i = 0; i < kCount * n; ++i) from[i] = token(me, i);
  EXPECT_RANK(done(rank.world.all_to_all(from, plain, kCount, DType::kUint16)));
  EXPECT_RANK(done(
      rank.world.all_to_all_v(from, {equal, displs}, vectored, {equal, displs}, DType::kUint16)));
  EXPECT_RANK(std::memcmp(plain, vectored, kCount * n * 2) == 0);
  return {};
}

// 2: all-gather in place.
std::string gather_in_place(Rank& rank) {
  for (const uint64_t count : {1ul, 100ul, 9001ul}) {
    Buffers buffers(rank.arena);
    auto* all = reinterpret_cast<uint16_t*>(buffers.take(count * rank.size() * 2, 2, 1));
    for (uint64_t i = 0; i < count; ++i) all[rank.id() * count + i] = token(rank.id(), i);
    EXPECT_RANK(done(rank.world.all_gather(all + rank.id() * count, all, count, DType::kUint16)));
    for (uint64_t i = 0; i < count * rank.size(); ++i) {
      EXPECT_RANK(all[i] == token(static_cast<uint32_t>(i / count), i % count));
    }
    EXPECT_RANK(buffers.guards_hold());
  }
  return {};
}

}  // namespace

std::vector<Case> data_cases() {
  const std::vector<uint32_t> all{1, 2, 3, 4, 5, 6, 7, 8};
  return {
      {"EveryTypeAndReductionMatchesTheScalarFold", "1 2 3 4 11 21", all, every_type_and_reduction},
      {"OddSizesAndAlignments", "5 7 9", {2, 3, 5, 8}, sizes_and_alignments},
      {"EveryRootWorks", "12", {1, 3, 8}, every_root},
      {"VectorFormsTakeZeroCountsGapsAndAnyOrder", "13", {1, 2, 5, 8}, vector_forms},
      {"AllToAllVIsAllToAllForEqualCounts", "13 14", {1, 2, 3, 7, 8}, exchange},
      {"AllGatherWorksInPlace", "2", {2, 3, 8}, gather_in_place}};
}

}  // namespace npu::test
