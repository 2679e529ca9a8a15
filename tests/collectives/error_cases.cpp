// Errors that leave the run alive: mismatches and bad arguments, told to every rank, nothing
// written, the next operation works.
#include <cstring>

#include "tests/collectives/rank_body.hpp"

namespace npu::test {
namespace {

using client::CollectiveOptions;

/// After each failure the communicator must be as good as new.
std::string still_works(Rank& rank) {
  uint32_t one = 1;
  EXPECT_RANK(done(rank.world.all_reduce(&one, &one, 1, DType::kUint32, ReduceOp::kSum)));
  EXPECT_RANK(one == rank.size());
  return {};
}

// 6 33: one rank differs in one field.
std::string mismatches(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  constexpr uint64_t kCount = 2000;
  const uint32_t odd_one = rank.size() - 1;
  const bool odd = rank.id() == odd_one;
  auto& w = rank.world;
  const auto all_reduce = [&](uint64_t count, DType dtype, ReduceOp op,
                              const CollectiveOptions& options = {}) {
    return error_of(w.all_reduce(data, data, count, dtype, op, options));
  };
  struct Trial {
    const char* field;
    std::function<std::optional<Error>()> call;
  };
  const Trial trials[] = {
      {"count", [&] { return all_reduce(odd ? 1000 : kCount, DType::kFloat32, ReduceOp::kSum); }},
      {"count", [&] { return all_reduce(odd ? 0 : kCount, DType::kFloat32, ReduceOp::kSum); }},
      {"data type",
       [&] { return all_reduce(kCount, odd ? DType::kInt32 : DType::kFloat32, ReduceOp::kSum); }},
      {"reduce op",
       [&] { return all_reduce(kCount, DType::kFloat32, odd ? ReduceOp::kMax : ReduceOp::kSum); }},
      {"operation",
       [&] {
         return odd ? error_of(w.broadcast(data, kCount, DType::kFloat32, 0))
                    : all_reduce(kCount, DType::kFloat32, ReduceOp::kSum);
       }},
      {"operation",
       [&] { return error_of(odd ? w.barrier() : w.broadcast(data, kCount, DType::kFloat32, 0)); }},
      {"root", [&] { return error_of(w.broadcast(data, kCount, DType::kFloat32, odd ? 1 : 0)); }},
      {"flags",
       [&] {
         return all_reduce(kCount, DType::kFloat32, ReduceOp::kSum,
                           {.timeout = {}, .sum_squares = odd});
       }},
      {"scale",
       [&] {
         return all_reduce(kCount, DType::kFloat32, ReduceOp::kPreMulSum,
                           {.timeout = {}, .scale = odd ? 2.0 : 3.0});
       }},
  };
  for (const Trial& t : trials) {
    for (uint64_t i = 0; i < kCount; ++i) data[i] = 7;
    const auto error = t.call();
    EXPECT_RANK(says(error, Code::kFailedPrecondition, t.field), "{}: {}", t.field,
                error ? error->message : "it worked");
    EXPECT_RANK(says(error, Code::kFailedPrecondition, fmt::format("ranks 0 and {}", odd_one)),
                "{}", error->message);
    for (uint64_t i = 0; i < kCount; ++i) EXPECT_RANK(data[i] == 7, "{} wrote", t.field);
    if (auto bad = still_works(rank); !bad.empty()) return bad;
  }
  return {};
}

// 13 33: v forms that do not agree between pairs.
std::string vector_mismatch(Rank& rank) {
  const uint32_t n = rank.size();
  std::vector<uint64_t> counts(n, 100), displs(n), wrong = counts;
  for (uint32_t r = 0; r < n; ++r) displs[r] = r * 200;
  wrong[0] = 101;
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  float* recv = data + 10'000;
  const bool odd = rank.id() == n - 1;
  const auto& mine = odd ? wrong : counts;
  EXPECT_RANK(says(error_of(rank.world.all_to_all_v(data, {mine, displs}, recv, {counts, displs},
                                                    DType::kFloat32)),
                   Code::kFailedPrecondition, "counts of the parts"));
  EXPECT_RANK(says(error_of(rank.world.all_gather_v(data, recv, {mine, displs}, DType::kFloat32)),
                   Code::kFailedPrecondition, "receive counts"));
  displs[1] = 50;  // into part 0
  EXPECT_RANK(says(error_of(rank.world.all_gather_v(data, recv, {counts, displs}, DType::kFloat32)),
                   Code::kInvalidArgument, "overlap"));
  return still_works(rank);
}

// 8 10 12 39: bad arguments, refused at once where this rank can tell, else on all ranks.
std::string bad_arguments(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  auto& w = rank.world;
  const auto sum = [&](const void* send, void* recv, uint64_t count) {
    return error_of(w.all_reduce(send, recv, count, DType::kFloat32, ReduceOp::kSum));
  };
  std::vector<float> outside(1000);
  EXPECT_RANK(says(sum(nullptr, data, 100), Code::kInvalidArgument, "null"));
  EXPECT_RANK(says(sum(data, nullptr, 100), Code::kInvalidArgument, "null"));
  EXPECT_RANK(says(sum(outside.data(), data, 1000), Code::kInvalidArgument, "arena"));
  EXPECT_RANK(says(sum(data, data, rank.arena.size()), Code::kInvalidArgument, "arena"));
  EXPECT_RANK(says(sum(data, data, UINT64_MAX / 2), Code::kInvalidArgument, "not possible"));
  EXPECT_RANK(says(error_of(w.all_gather(data, data + 10, UINT64_MAX / 2, DType::kFloat32)),
                   Code::kInvalidArgument, "not possible"));
  // These the daemon finds, in the same sequence number on every rank.
  EXPECT_RANK(says(sum(data, data + 1, 1000), Code::kInvalidArgument, "overlap"));
  EXPECT_RANK(says(sum(reinterpret_cast<char*>(data) + 2, data + 5000, 1000),
                   Code::kInvalidArgument, "alignment"));
  EXPECT_RANK(says(error_of(w.broadcast(data, 1000, DType::kFloat32, rank.size())),
                   Code::kInvalidArgument, "root"));
  EXPECT_RANK(
      says(error_of(w.broadcast(data, 3, DType::kFloat32, 9)), Code::kInvalidArgument, "root"));
  EXPECT_RANK(says(error_of(w.all_reduce(data, data, 100, static_cast<DType>(77), ReduceOp::kSum)),
                   Code::kInvalidArgument, ""));
  EXPECT_RANK(says(error_of(w.barrier({.timeout = {}, .stream = {200}})), Code::kInvalidArgument,
                   "stream"));
  return still_works(rank);
}

// One rank's bad argument is everybody's error, and names it.
std::string one_bad_rank(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const bool bad_one = rank.id() == 1;
  const auto error = error_of(rank.world.all_reduce(data, bad_one ? data + 1 : data + 5000, 1000,
                                                    DType::kFloat32, ReduceOp::kSum));
  EXPECT_RANK(says(error, Code::kInvalidArgument, "rank 1 passed a bad overlap"), "{}",
              error ? error->message : "it worked");
  return still_works(rank);
}

}  // namespace

std::vector<Case> error_cases() {
  return {{"MismatchNamesFieldAndRanksOnAllOfThem", "6 33", {2, 3, 8}, mismatches},
          {"VectorFormsMustAgree", "13 33", {2, 5}, vector_mismatch},
          {"BadArgumentsAreRefused", "8 10 12 39", {1, 3}, bad_arguments},
          {"OneBadRankIsNamedToAll", "39", {2, 8}, one_bad_rank}};
}

}  // namespace npu::test
