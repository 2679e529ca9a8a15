#include "client/api/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace npu::client {
namespace {

using shm::Op;

uint32_t timeout_ms(milliseconds timeout) noexcept {
  const auto ms = timeout.count();
  return ms <= 0 ? 0 : ms >= UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(ms);
}

constexpr milliseconds kTimeout{60'000};

bool may_be_inline(Op op) noexcept {
  return op == Op::kAllReduce || op == Op::kBroadcast || shm::op_is_pairwise(op);
}

}  // namespace

Result<void> Batch::wait(Deadline deadline) {
  std::optional<Error> late;
  for (size_t i = 0; i < n_; ++i) {
    if (!works_[i].valid()) continue;
    auto done = works_[i].wait(deadline);
    if (done) continue;
    // One that is only late keeps its handle; what failed is remembered for the wait that ends it
    // all.
    auto& kept = works_[i].valid() ? late : failed_;
    if (!kept) kept = std::move(done.error());
  }
  if (late) return tl::unexpected(std::move(*late));
  if (failed_) return tl::unexpected(*failed_);
  return {};
}

Communicator::Communicator(DeviceQueue& queue, const Membership& membership)
    : queue_(queue), membership_(membership) {
  // The hint page's line may still hold counts of an earlier communicator; see Submitter::submit.
  auto& counts = queue_.place().hints->arrivals[membership_.id % shm::kMaxCommunicators];
  counts.submitted[membership_.rank].store(0, std::memory_order_seq_cst);
}

shm::Request Communicator::make_request(Op op, const CollectiveOptions& options) const {
  shm::Request request;
  request.op = op;
  const CollectiveEnv& env = queue_.place().env;
  request.algorithm = options.algorithm == shm::Algorithm::kAuto ? env.of(op) : options.algorithm;
  request.stream = options.stream.id;
  request.communicator = membership_.id;
  request.flags =
      (options.sum_squares ? shm::kFlagSumSquares : 0) | (options.strict ? shm::kFlagStrict : 0);
  request.timeout_ms = timeout_ms(options.timeout.value_or(env.timeout.value_or(kTimeout)));
  request.scale = options.scale;
  return request;
}

shm::Arrival Communicator::arrival(Op op) const noexcept {
  // A destroy is not counted either: the count could arrive when the slot's next user has begun.
  if (shm::op_is_pairwise(op) || op == Op::kDestroy) return {};
  return {membership_.id % shm::kMaxCommunicators, membership_.rank, membership_.size};
}

Result<void> Communicator::check_open(const char* what) const {
  if (queue_.orphaned()) return tl::unexpected(*queue_.failure());
  const bool destroyed = destroyed_.load(std::memory_order_acquire);
  if (!destroyed && !suspended_.load(std::memory_order_acquire)) return {};
  return fail(Code::kFailedPrecondition, "{}: communicator {} {}", what, membership_.id,
              destroyed ? "was destroyed" : "is suspended; resume it first");
}

Result<uint64_t> Communicator::offset_of(const void* p, uint64_t bytes, bool copy_in, void* back_to,
                                         const char* what, StagedCopy& staged) {
  if (bytes == 0) return uint64_t{0};
  if (p == nullptr) {
    return fail(Code::kInvalidArgument, "{}: a buffer is null but {} bytes are to be moved", what,
                bytes);
  }
  const auto arena = queue_.place().arena;
  const auto* at = static_cast<const std::byte*>(p);
  if (at >= arena.data() && at < arena.data() + arena.size()) {
    const auto offset = static_cast<uint64_t>(at - arena.data());
    if (bytes <= arena.size() - offset) return offset;
    return fail(Code::kInvalidArgument,
                "{}: a buffer of {} bytes at offset {} reaches beyond the device's arena of {} "
                "bytes",
                what, bytes, offset, arena.size());
  }
  if (queue_.place().staging.empty()) {
    return fail(Code::kInvalidArgument,
                "{}: a buffer of {} bytes is not inside the device's arena; allocate it there, or "
                "attach with a staging region",
                what, bytes);
  }
  NPU_TRY(staged.copy, queue_.staging().allocate(bytes, what));
  staged.back_to = back_to;
  staged.bytes = bytes;
  queue_.count_staged();
  if (copy_in) std::memcpy(staged.copy, p, bytes);
  return static_cast<uint64_t>(staged.copy - arena.data());
}

Result<Communicator::Placed> Communicator::place(shm::Request& request, const Buffers& b) {
  const char* what = shm::op_name(request.op);
  const uint64_t element = dtype_size(b.dtype);
  uint64_t bytes = 0, send_bytes = 0, recv_bytes = 0;
  if (element == 0 || __builtin_mul_overflow(b.count, element, &bytes) ||
      __builtin_mul_overflow(b.send_elements, element, &send_bytes) ||
      __builtin_mul_overflow(b.recv_elements, element, &recv_bytes)) {
    return fail(Code::kInvalidArgument, "{}: {} elements of {} are not possible", what, b.count,
                dtype_name(b.dtype));
  }
  request.count = b.count;
  request.dtype = static_cast<uint8_t>(b.dtype);
  Placed placed;
  if (send_bytes == 0 && recv_bytes == 0) return placed;
  if (may_be_inline(request.op) && bytes <= shm::kInlineBytes) {
    // By size alone, so that all ranks decide alike.
    if ((send_bytes > 0 && b.send == nullptr) || (recv_bytes > 0 && b.recv == nullptr)) {
      return fail(Code::kInvalidArgument, "{}: a buffer is null but {} elements are to be moved",
                  what, b.count);
    }
    request.flags |= shm::kFlagInline;
    if (send_bytes > 0) std::memcpy(request.inline_payload.data(), b.send, bytes);
    if (recv_bytes > 0) placed.inline_result = {b.recv, static_cast<uint32_t>(bytes)};
    return placed;
  }
  const bool in_place = b.send == b.recv && send_bytes == recv_bytes;
  auto& [of_send, of_recv] = placed.staged;
  auto placing = [&]() -> Result<void> {
    if (in_place) {
      NPU_TRY(request.recv_offset, offset_of(b.recv, recv_bytes, true, b.recv, what, of_recv));
      request.send_offset = request.recv_offset;
      return {};
    }
    NPU_TRY(request.send_offset, offset_of(b.send, send_bytes, true, nullptr, what, of_send));
    // Gaps between received parts go back as they were.
    NPU_TRY(request.recv_offset, offset_of(b.recv, recv_bytes, true, b.recv, what, of_recv));
    return {};
  }();
  if (placing) return placed;
  if (of_send.copy != nullptr) queue_.staging().release(of_send.copy);
  return tl::unexpected(std::move(placing.error()));
}

Result<Work> Communicator::submit(shm::Request& request, const Buffers& buffers) {
  const char* what = shm::op_name(request.op);
  NPU_TRY_VOID(check_open(what));
  NPU_TRY(const Placed placed, place(request, buffers));
  auto ticket = queue_.submit({&request, 1}, arrival(request.op), what);
  if (ticket) return Work(queue_, *ticket, placed.inline_result, placed.staged);
  for (const StagedCopy& s : placed.staged) {
    if (s.copy != nullptr) queue_.staging().release(s.copy);
  }
  return tl::unexpected(std::move(ticket.error()));
}

Result<void> Communicator::set_layout(const Layout& layout, uint64_t* counts, uint64_t* displs,
                                      uint64_t& elements, const char* what) const {
  if (layout.counts.size() != size() || layout.displs.size() != size()) {
    return fail(Code::kInvalidArgument,
                "{}: {} counts and {} displacements were passed, the communicator has {} ranks",
                what, layout.counts.size(), layout.displs.size(), size());
  }
  elements = 0;
  for (uint32_t r = 0; r < size(); ++r) {
    counts[r] = layout.counts[r];
    displs[r] = layout.displs[r];
    uint64_t end = 0;
    if (__builtin_add_overflow(counts[r], displs[r], &end)) {
      return fail(Code::kInvalidArgument,
                  "{}: {} elements at displacement {} (rank {}) are not possible", what, counts[r],
                  displs[r], r);
    }
    if (counts[r] != 0) elements = std::max(elements, end);
  }
  return {};
}

Result<uint64_t> Communicator::all_parts(uint64_t count, const char* what) const {
  uint64_t all = 0;
  if (!__builtin_mul_overflow(count, uint64_t{size()}, &all)) return all;
  return fail(Code::kInvalidArgument, "{}: {} elements for each of {} ranks are not possible", what,
              count, size());
}

Result<Work> Communicator::all_reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                      ReduceOp op, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kAllReduce, options);
  request.reduce_op = static_cast<uint8_t>(op);
  return submit(request, {send, recv, count, dtype, count, count});
}

Result<Work> Communicator::broadcast(void* buffer, uint64_t count, DType dtype, uint32_t root,
                                     const CollectiveOptions& options) {
  return broadcast(buffer, buffer, count, dtype, root, options);
}

Result<Work> Communicator::broadcast(const void* send, void* recv, uint64_t count, DType dtype,
                                     uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kBroadcast, options);
  request.root = root;
  // Off root only recv counts; naming it twice keeps the offsets of an untouched send out of sight.
  const void* from = root == rank() ? send : recv;
  return submit(request, {from, recv, count, dtype, count, count});
}

Result<Work> Communicator::reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                  ReduceOp op, uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kReduce, options);
  request.reduce_op = static_cast<uint8_t>(op);
  request.root = root;
  return submit(request, {send, recv, count, dtype, count, root == rank() ? count : 0});
}

Result<Work> Communicator::all_gather(const void* send, void* recv, uint64_t count, DType dtype,
                                      const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kAllGather, options);
  NPU_TRY(const uint64_t all, all_parts(count, "all-gather"));
  return submit(request, {send, recv, count, dtype, count, all});
}

Result<Work> Communicator::all_gather_v(const void* send, void* recv, const Layout& parts,
                                        DType dtype, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kAllGatherV, options);
  uint64_t extent = 0;
  NPU_TRY_VOID(set_layout(parts, request.vectors.recv_counts, request.vectors.recv_displs, extent,
                          "all-gather-v"));
  const uint64_t own = parts.counts[rank()];
  return submit(request, {send, recv, own, dtype, own, extent});
}

Result<Work> Communicator::reduce_scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                          ReduceOp op, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kReduceScatter, options);
  request.reduce_op = static_cast<uint8_t>(op);
  NPU_TRY(const uint64_t all, all_parts(count, "reduce-scatter"));
  return submit(request, {send, recv, count, dtype, all, count});
}

Result<Work> Communicator::reduce_scatter_v(const void* send, void* recv, const Layout& parts,
                                            DType dtype, ReduceOp op,
                                            const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kReduceScatterV, options);
  request.reduce_op = static_cast<uint8_t>(op);
  uint64_t extent = 0;
  NPU_TRY_VOID(set_layout(parts, request.vectors.send_counts, request.vectors.send_displs, extent,
                          "reduce-scatter-v"));
  const uint64_t own = parts.counts[rank()];
  return submit(request, {send, recv, own, dtype, extent, own});
}

Result<Work> Communicator::scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                   uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kScatter, options);
  request.root = root;
  NPU_TRY(const uint64_t all, all_parts(count, "scatter"));
  return submit(request, {send, recv, count, dtype, root == rank() ? all : 0, count});
}

Result<Work> Communicator::gather(const void* send, void* recv, uint64_t count, DType dtype,
                                  uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kGather, options);
  request.root = root;
  NPU_TRY(const uint64_t all, all_parts(count, "gather"));
  return submit(request, {send, recv, count, dtype, count, root == rank() ? all : 0});
}

Result<Work> Communicator::all_to_all(const void* send, void* recv, uint64_t count, DType dtype,
                                      const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kAllToAll, options);
  NPU_TRY(const uint64_t all, all_parts(count, "all-to-all"));
  return submit(request, {send, recv, count, dtype, all, all});
}

Result<Work> Communicator::all_to_all_v(const void* send, const Layout& send_parts, void* recv,
                                        const Layout& recv_parts, DType dtype,
                                        const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kAllToAllV, options);
  shm::VectorArgs& v = request.vectors;
  uint64_t sends = 0, receives = 0;
  NPU_TRY_VOID(set_layout(send_parts, v.send_counts, v.send_displs, sends, "all-to-all-v"));
  NPU_TRY_VOID(set_layout(recv_parts, v.recv_counts, v.recv_displs, receives, "all-to-all-v"));
  return submit(request, {send, recv, 0, dtype, sends, receives});
}

Result<Work> Communicator::submit_pairwise(Op op, const Buffers& buffers, uint32_t peer,
                                           const CollectiveOptions& options) {
  shm::Request request = make_request(op, options);
  request.flags = 0;
  request.root = peer;
  return submit(request, buffers);
}

Result<Work> Communicator::send(const void* buffer, uint64_t count, DType dtype, uint32_t peer,
                                const CollectiveOptions& options) {
  return submit_pairwise(Op::kSend, {buffer, nullptr, count, dtype, count, 0}, peer, options);
}

Result<Work> Communicator::recv(void* buffer, uint64_t count, DType dtype, uint32_t peer,
                                const CollectiveOptions& options) {
  return submit_pairwise(Op::kRecv, {nullptr, buffer, count, dtype, 0, count}, peer, options);
}

Result<Batch> Communicator::batch(std::span<const PointToPoint> items,
                                  const CollectiveOptions& options) {
  NPU_TRY_VOID(check_open("batch"));
  if (items.size() > Batch::kMaxItems) {
    return fail(Code::kInvalidArgument, "batch: {} items, at most {} go together", items.size(),
                Batch::kMaxItems);
  }
  Batch batch;
  if (items.empty()) return batch;
  std::array<shm::Request, Batch::kMaxItems> requests;
  std::array<Placed, Batch::kMaxItems> placed;
  std::optional<Error> failed;
  for (size_t i = 0; i < items.size() && !failed; ++i) {
    const PointToPoint& item = items[i];
    const bool sends = item.kind == PointToPoint::Kind::kSend;
    requests[i] = make_request(sends ? Op::kSend : Op::kRecv, options);
    requests[i].flags = i + 1 < items.size() ? shm::kFlagJoined : 0;
    requests[i].root = item.peer;
    const Buffers buffers{
        item.buffer,           item.buffer, item.count, item.dtype, sends ? item.count : 0,
        sends ? 0 : item.count};
    auto one = place(requests[i], buffers);
    if (one) placed[i] = *one;
    if (!one) failed = std::move(one.error());
  }
  Result<uint64_t> ticket = tl::unexpected(Error{});
  if (!failed) {
    ticket = queue_.submit({requests.data(), items.size()}, arrival(Op::kSend), "batch");
    if (!ticket) failed = std::move(ticket.error());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!failed) {
      batch.works_[i] = Work(queue_, *ticket + i, placed[i].inline_result, placed[i].staged);
      continue;
    }
    for (const StagedCopy& s : placed[i].staged) {
      if (s.copy != nullptr) queue_.staging().release(s.copy);
    }
  }
  if (failed) return tl::unexpected(std::move(*failed));
  batch.n_ = items.size();
  return batch;
}

Result<Work> Communicator::barrier(const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kBarrier, options);
  request.flags = 0;
  return submit(request, {});
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key,
                                                          const CollectiveOptions& options) {
  shm::Request request = make_request(Op::kSplit, options);
  request.flags = 0;
  const shm::SplitRequest wish{color, key};
  std::memcpy(request.inline_payload.data(), &wish, sizeof(wish));
  NPU_TRY_VOID(check_open("split"));
  NPU_TRY(const uint64_t ticket, queue_.submit({&request, 1}, arrival(Op::kSplit), "split"));
  NPU_TRY(const auto outcome, queue_.wait(ticket, Deadline::never()));
  shm::SplitReply reply;
  std::memcpy(&reply, outcome->inline_payload.data(), sizeof(reply));
  if (reply.communicator == shm::kNoCommunicator) return std::unique_ptr<Communicator>();
  Membership membership{reply.communicator, reply.rank, reply.size, {}};
  std::copy(std::begin(reply.members), std::end(reply.members), membership.world_ranks.begin());
  return std::make_unique<Communicator>(queue_, membership);
}

Result<void> Communicator::destroy(const CollectiveOptions& options) {
  if (membership_.id == 0) {
    return fail(Code::kInvalidArgument,
                "destroy: the world lasts as long as the run; detach the device instead");
  }
  if (destroyed_.exchange(true, std::memory_order_acq_rel)) return check_open("destroy");
  shm::Request request = make_request(Op::kDestroy, options);
  request.flags = 0;
  NPU_TRY(const uint64_t ticket, queue_.submit({&request, 1}, arrival(Op::kDestroy), "destroy"));
  NPU_TRY_VOID(queue_.wait(ticket, Deadline::never()));
  return {};
}

}  // namespace npu::client
