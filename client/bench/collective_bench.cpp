#include "client/bench/collective_bench.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "client/api/device.hpp"
#include "client/bench/element.hpp"

namespace npu::client {
namespace {

using shm::Op;

bool parted(Op op) noexcept {
  return op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kScatter ||
         op == Op::kGather || op == Op::kAllToAll || shm::op_has_vectors(op);
}

/// Bytes that cross the memory bus when every rank's buffers are out of cache; `s` as in
/// BenchRow::bytes.
double traffic(Op op, double s, double n) noexcept {
  switch (op) {
    case Op::kAllReduce:
      return 2 * n * s;
    case Op::kReduce:
      return (n + 1) * s;
    case Op::kBroadcast:
      return n * s;
    case Op::kAllGather:
    case Op::kAllGatherV:
      return s + n * s;
    case Op::kReduceScatter:
    case Op::kReduceScatterV:
      return n * s + s;
    case Op::kScatter:
    case Op::kGather:
      return 2 * s;
    case Op::kAllToAll:
    case Op::kAllToAllV:
    case Op::kSend:  // every rank to the next one
      return 2 * n * s;
    default:
      return 0;
  }
}

double busbw_factor(Op op, double n) noexcept {
  if (op == Op::kAllReduce) return 2 * (n - 1) / n;
  return parted(op) ? (n - 1) / n : 1;
}

/// Input of element i on a rank. Whole numbers, small enough that every type holds every result
/// exactly; for a mean they are multiples of the rank count.
int64_t input(const BenchOptions& o, uint32_t rank, uint64_t i) noexcept {
  const auto x = static_cast<int64_t>((rank * 3 + i * 7 + i / 5) % 4);
  switch (o.reduce) {
    case ReduceOp::kMean:
      return x * o.ranks;
    case ReduceOp::kProd:
      return 1 + x % 2;
    default:
      return x + 1;
  }
}

int64_t reduced(const BenchOptions& o, uint64_t i) noexcept {
  int64_t value = input(o, 0, i);
  for (uint32_t r = 1; r < o.ranks; ++r) {
    const int64_t x = input(o, r, i);
    switch (o.reduce) {
      case ReduceOp::kProd:
        value *= x;
        break;
      case ReduceOp::kMax:
        value = std::max(value, x);
        break;
      case ReduceOp::kMin:
        value = std::min(value, x);
        break;
      default:
        value += x;
    }
  }
  return o.reduce == ReduceOp::kMean ? value / o.ranks : value;
}

/// One rank's side of the bench.
class RankBench {
 public:
  RankBench(Device& device, const BenchOptions& options) : device_(device), o_(options) {}

  [[nodiscard]] Result<BenchRow> run(uint64_t bytes, double bandwidth) {
    place(bytes);
    NPU_TRY(const uint64_t wrong, check());
    std::memset(send_, 0,
                send_elements() * element_);  // zeros stay finite however often they are summed
    std::vector<double> times;
    for (int i = 0; i < o_.warmup + o_.iterations; ++i) {
      NPU_TRY(const double us, timed());
      if (i >= o_.warmup) times.push_back(us);
    }
    std::sort(times.begin(), times.end());
    BenchRow row;
    row.bytes = shm::op_has_vectors(o_.op) ? std::max(send_elements(), recv_elements()) * element_
                                           : count_ * element_ * (parted(o_.op) ? o_.ranks : 1);
    row.count = count_;
    row.p50_us = times[times.size() / 2];
    row.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    row.wrong = wrong;
    row.algorithm = algorithm_;
    const double s = static_cast<double>(row.bytes);
    row.algbw_gbs = s / row.p50_us * 1e-3;
    row.busbw_gbs = row.algbw_gbs * busbw_factor(o_.op, o_.ranks);
    row.mem_fraction = traffic(o_.op, s, o_.ranks) / (row.p50_us * 1e-6) / bandwidth;
    return row;
  }

  /// Arena bytes for the largest size.
  [[nodiscard]] static uint64_t arena_bytes(const BenchOptions& o) {
    return 2 * (o.end_bytes + 1024) + 64 * 1024;
  }

 private:
  // The v forms move uneven parts: one element more or less from rank to rank.
  [[nodiscard]] uint64_t uneven(uint32_t from, uint32_t to) const noexcept {
    if (o_.op == Op::kAllGatherV) return count_ + from % 2;
    return o_.op == Op::kReduceScatterV ? count_ + to % 2 : count_ + (from + to) % 2;
  }
  /// Where what `from` sends to `to` begins: among what `from` sends, or what `to` receives.
  [[nodiscard]] uint64_t send_displ(uint32_t from, uint32_t to) const noexcept {
    uint64_t at = 0;
    for (uint32_t r = 0; r < to; ++r) at += uneven(from, r);
    return at;
  }
  [[nodiscard]] uint64_t recv_displ(uint32_t from, uint32_t to) const noexcept {
    uint64_t at = 0;
    for (uint32_t r = 0; r < from; ++r) at += uneven(r, to);
    return at;
  }

  [[nodiscard]] uint64_t send_elements() const noexcept {
    const uint32_t me = device_.rank();
    if (o_.op == Op::kAllGatherV) return uneven(me, 0);
    if (shm::op_has_vectors(o_.op)) return send_displ(me, o_.ranks);
    return o_.op == Op::kReduceScatter || o_.op == Op::kScatter || o_.op == Op::kAllToAll
               ? count_ * o_.ranks
               : count_;
  }
  [[nodiscard]] uint64_t recv_elements() const noexcept {
    const uint32_t me = device_.rank();
    if (o_.op == Op::kReduceScatterV) return uneven(0, me);
    if (shm::op_has_vectors(o_.op)) return recv_displ(o_.ranks, me);
    return o_.op == Op::kAllGather || o_.op == Op::kGather || o_.op == Op::kAllToAll
               ? count_ * o_.ranks
               : count_;
  }

  void place(uint64_t bytes) {
    element_ = dtype_size(o_.dtype);
    count_ = bytes / element_ / (parted(o_.op) ? o_.ranks : 1) + (o_.odd ? 1 : 0);
    const uint64_t shift = o_.unalign ? (1 + device_.rank() % 3) * element_ : 0;
    send_ = device_.arena().data() + 4096 + shift;
    recv_ = send_ + (send_elements() * element_ + 4096) / 4096 * 4096;
    if (o_.op == Op::kAllReduce) recv_ = send_;  // in place, as training does it
    if (o_.op == Op::kBroadcast) recv_ = send_;
    const uint32_t me = device_.rank();
    for (uint32_t r = 0; r < o_.ranks; ++r) {
      send_counts_[r] = uneven(me, r);
      send_displs_[r] = send_displ(me, r);
      recv_counts_[r] = uneven(r, me);
      recv_displs_[r] = recv_displ(r, me);
    }
  }

  [[nodiscard]] client::Layout send_parts() const { return {send_counts_, send_displs_}; }
  [[nodiscard]] client::Layout recv_parts() const { return {recv_counts_, recv_displs_}; }

  /// Every rank sends to the next and receives from the one before.
  [[nodiscard]] Result<CollectiveResult> shift(const CollectiveOptions& options) {
    const uint32_t me = device_.rank();
    using Kind = PointToPoint::Kind;
    const PointToPoint items[] = {
        {Kind::kSend, send_, count_, o_.dtype, (me + 1) % o_.ranks},
        {Kind::kRecv, recv_, count_, o_.dtype, (me + o_.ranks - 1) % o_.ranks}};
    NPU_TRY(Batch batch, device_.world().batch(items, options));
    NPU_TRY_VOID(batch.wait());
    return CollectiveResult{.algorithm = shm::Algorithm::kDirect};
  }

  [[nodiscard]] Result<CollectiveResult> call() {
    Communicator& world = device_.world();
    const CollectiveOptions options{.algorithm = o_.algorithm, .timeout = {}};
    if (o_.op == Op::kSend) return shift(options);
    auto work = [&]() -> Result<Work> {
      switch (o_.op) {
        case Op::kAllGatherV:
          return world.all_gather_v(send_, recv_, recv_parts(), o_.dtype, options);
        case Op::kReduceScatterV:
          return world.reduce_scatter_v(send_, recv_, send_parts(), o_.dtype, o_.reduce, options);
        case Op::kAllToAllV:
          return world.all_to_all_v(send_, send_parts(), recv_, recv_parts(), o_.dtype, options);
        case Op::kAllReduce:
          return world.all_reduce(send_, recv_, count_, o_.dtype, o_.reduce, options);
        case Op::kReduce:
          return world.reduce(send_, recv_, count_, o_.dtype, o_.reduce, 0, options);
        case Op::kBroadcast:
          return world.broadcast(send_, count_, o_.dtype, 0, options);
        case Op::kAllGather:
          return world.all_gather(send_, recv_, count_, o_.dtype, options);
        case Op::kReduceScatter:
          return world.reduce_scatter(send_, recv_, count_, o_.dtype, o_.reduce, options);
        case Op::kScatter:
          return world.scatter(send_, recv_, count_, o_.dtype, 0, options);
        case Op::kGather:
          return world.gather(send_, recv_, count_, o_.dtype, 0, options);
        case Op::kAllToAll:
          return world.all_to_all(send_, recv_, count_, o_.dtype, options);
        default:
          return world.barrier(options);
      }
    }();
    if (!work) return tl::unexpected(work.error());
    return work->wait();
  }

  /// What element i of this rank's result must be; false if the operation leaves it alone.
  [[nodiscard]] int64_t expected(uint64_t i) const noexcept {
    const uint32_t me = device_.rank();
    switch (o_.op) {
      case Op::kAllReduce:
      case Op::kReduce:
        return reduced(o_, i);
      case Op::kReduceScatter:
        return reduced(o_, me * count_ + i);
      case Op::kReduceScatterV:
        return reduced(o_, send_displ(0, me) + i);
      case Op::kAllGatherV:
      case Op::kAllToAllV:
        return expected_part(i);
      case Op::kSend:
        return input(o_, (me + o_.ranks - 1) % o_.ranks, i);
      case Op::kBroadcast:
        return input(o_, 0, i);
      case Op::kScatter:
        return input(o_, 0, me * count_ + i);
      case Op::kAllGather:
      case Op::kGather:
        return input(o_, static_cast<uint32_t>(i / count_), i % count_);
      case Op::kAllToAll:
        return input(o_, static_cast<uint32_t>(i / count_), me * count_ + i % count_);
      default:
        return 0;
    }
  }

  /// Element i of what the v forms put together.
  [[nodiscard]] int64_t expected_part(uint64_t i) const noexcept {
    uint32_t from = 0;
    while (from + 1 < o_.ranks && i >= recv_displs_[from + 1]) ++from;
    const uint64_t at = o_.op == Op::kAllToAllV ? send_displ(from, device_.rank()) : 0;
    return input(o_, from, at + i - recv_displs_[from]);
  }

  [[nodiscard]] Result<uint64_t> check() {
    if (o_.op == Op::kBarrier) return uint64_t{0};
    for (uint64_t i = 0; i < send_elements(); ++i)
      store_element(send_, i, o_.dtype, input(o_, device_.rank(), i));
    if (o_.op != Op::kAllReduce && o_.op != Op::kBroadcast)
      std::memset(recv_, 0x55, recv_elements() * element_);
    NPU_TRY(const CollectiveResult result, call());
    algorithm_ = result.algorithm;
    const bool has_result = (o_.op != Op::kReduce && o_.op != Op::kGather) || device_.rank() == 0;
    int64_t wrong = 0;
    for (uint64_t i = 0; has_result && i < recv_elements(); ++i)
      wrong += element_is(recv_, i, o_.dtype, expected(i)) ? 0 : 1;
    NPU_TRY(Work total,
            device_.world().all_reduce(&wrong, &wrong, 1, DType::kInt64, ReduceOp::kSum));
    NPU_TRY_VOID(total.wait());
    return static_cast<uint64_t>(wrong);
  }

  /// Microseconds of one call on its slowest rank.
  [[nodiscard]] Result<double> timed() {
    NPU_TRY(Work ready, device_.world().barrier());
    NPU_TRY_VOID(ready.wait());
    const auto begin = Clock::now();
    NPU_TRY_VOID(call());
    double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    NPU_TRY(Work slowest, device_.world().all_reduce(&us, &us, 1, DType::kFloat64, ReduceOp::kMax));
    NPU_TRY_VOID(slowest.wait());
    return us;
  }

  Device& device_;
  const BenchOptions& o_;
  uint64_t element_ = 4, count_ = 0;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  shm::Algorithm algorithm_ = shm::Algorithm::kAuto;
  std::vector<uint64_t> send_counts_ = std::vector<uint64_t>(o_.ranks), send_displs_ = send_counts_;
  std::vector<uint64_t> recv_counts_ = send_counts_, recv_displs_ = send_counts_;
};

Result<uint64_t> run_rank_bench(const std::string& socket, const BenchOptions& o,
                                const std::string& run, uint32_t rank, double bandwidth,
                                const std::function<void(const BenchRow&)>& on_row) {
  NPU_TRY(const auto device, Device::attach({.socket = socket,
                                             .run = run,
                                             .run_key = run,
                                             .world = o.ranks,
                                             .rank = rank,
                                             .device = rank,
                                             .arena_bytes = RankBench::arena_bytes(o)}));
  RankBench bench(*device, o);
  uint64_t wrong = 0;
  double bytes = static_cast<double>(o.begin_bytes);
  while (bytes <= static_cast<double>(o.end_bytes)) {
    NPU_TRY(const BenchRow row, bench.run(static_cast<uint64_t>(bytes), bandwidth));
    wrong += row.wrong;
    if (rank == 0) on_row(row);
    if (o.op == Op::kBarrier) break;
    bytes *= o.factor;
  }
  NPU_TRY(Work last, device->world().barrier());
  NPU_TRY_VOID(last.wait());
  NPU_TRY_VOID(device->detach());
  return wrong;
}

}  // namespace

Result<uint64_t> run_collective_bench(const std::string& socket, const BenchOptions& options,
                                      double memory_bandwidth,
                                      const std::function<void(const BenchRow&)>& on_row) {
  const std::string run = fmt::format("bench-{}", ::getpid());
  std::vector<pid_t> pids;
  for (uint32_t rank = 1; rank < options.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("start a bench rank");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto wrong = run_rank_bench(socket, options, run, rank, memory_bandwidth, on_row);
      if (!wrong)
        std::fprintf(stderr, "npu bench: rank %u: %s\n", rank, wrong.error().message.c_str());
      ::_exit(wrong ? 0 : static_cast<int>(wrong.error().exit));
    }
    pids.push_back(pid);
  }
  auto wrong = run_rank_bench(socket, options, run, 0, memory_bandwidth, on_row);
  for (const pid_t pid : pids) {
    if (!wrong) ::kill(pid, SIGTERM);
    (void)::waitpid(pid, nullptr, 0);
  }
  return wrong;
}

}  // namespace npu::client
