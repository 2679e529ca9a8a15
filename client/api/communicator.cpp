#include "client/api/communicator.hpp"

#include <cstring>
#include <utility>

#include "shm/futex.hpp"
#include "shm/messages.hpp"

namespace npu::client {
namespace {

bool aborted(const shm::RunBoard& board) noexcept {
  // Pairs with the release in publish_abort.
  return board.members.state.load(std::memory_order_acquire) ==
         static_cast<uint32_t>(shm::RunState::kAborted);
}

uint32_t timeout_ms(milliseconds timeout) noexcept {
  const auto ms = timeout.count();
  return ms <= 0 ? 0 : ms >= UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(ms);
}

}  // namespace

Work::Work(Work&& other) noexcept
    : communicator_(std::exchange(other.communicator_, nullptr)),
      ticket_(other.ticket_),
      inline_out_(other.inline_out_),
      inline_bytes_(other.inline_bytes_) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (communicator_ != nullptr) communicator_->submitter_.abandon(ticket_);
    communicator_ = std::exchange(other.communicator_, nullptr);
    ticket_ = other.ticket_;
    inline_out_ = other.inline_out_;
    inline_bytes_ = other.inline_bytes_;
  }
  return *this;
}

Work::~Work() {
  if (communicator_ != nullptr) communicator_->submitter_.abandon(ticket_);
}

bool Work::ready() const noexcept {
  shm::Outcome outcome;
  return communicator_ == nullptr || aborted(*communicator_->place_.board) ||
         communicator_->submitter_.poll(ticket_, outcome);
}

Result<CollectiveResult> Work::wait() {
  if (communicator_ == nullptr) {
    return fail(Code::kFailedPrecondition,
                "wait: this handle holds no operation, or was waited for already");
  }
  Communicator& communicator = *std::exchange(communicator_, nullptr);
  auto outcome = communicator.wait(ticket_);
  communicator.submitter_.release(ticket_);
  if (!outcome) return tl::unexpected(std::move(outcome.error()));
  if (inline_out_ != nullptr)
    std::memcpy(inline_out_, outcome->inline_payload.data(), inline_bytes_);
  return CollectiveResult{outcome->found_inf, outcome->result_inf, outcome->sum_squares,
                          outcome->algorithm};
}

Communicator::Communicator(CommunicatorPlace place)
    : place_(std::move(place)),
      submitter_(*place_.submit, *place_.status, *place_.board, place_.generation) {}

Error Communicator::run_error() const {
  if (!aborted(*place_.board)) return place_.failure();
  const auto& abort = place_.board->abort;
  const auto code = static_cast<Code>(abort.code);
  return Error{code, shm::get_text(abort.text), default_exit(code)};
}

std::optional<Error> Communicator::failure() const {
  if (!aborted(*place_.board) && !place_.failed->load(std::memory_order_acquire))
    return std::nullopt;
  return run_error();
}

Result<void> Communicator::place_buffers(shm::Request& request, const Buffers& b,
                                         const char* what) const {
  const uint64_t element = dtype_size(b.dtype);
  uint64_t bytes = 0;
  if (element == 0 || __builtin_mul_overflow(b.count, element, &bytes)) {
    return fail(Code::kInvalidArgument, "{}: {} elements of {} are not possible", what, b.count,
                dtype_name(b.dtype));
  }
  request.count = b.count;
  request.dtype = static_cast<uint8_t>(b.dtype);
  if (bytes == 0) return {};
  if ((b.send == nullptr && b.send_parts > 0) || (b.recv == nullptr && b.recv_parts > 0)) {
    return fail(Code::kInvalidArgument, "{}: a buffer is null but {} elements are to be moved",
                what, b.count);
  }
  const bool small_op = request.op == shm::Op::kAllReduce || request.op == shm::Op::kBroadcast;
  if (small_op && bytes <= shm::kInlineBytes) {  // by size alone, so that all ranks decide alike
    request.flags |= shm::kFlagInline;
    std::memcpy(request.inline_payload.data(), b.send, bytes);
    return {};
  }
  NPU_TRY(request.send_offset, arena_offset(b.send, bytes, b.send_parts, what));
  NPU_TRY(request.recv_offset, arena_offset(b.recv, bytes, b.recv_parts, what));
  return {};
}

Result<uint64_t> Communicator::arena_offset(const void* p, uint64_t part_bytes, uint64_t parts,
                                            const char* what) const {
  if (parts == 0) return uint64_t{0};
  const auto* at = static_cast<const std::byte*>(p);
  const auto* begin = place_.arena.data();
  const uint64_t size = place_.arena.size();
  const bool inside = at >= begin && at <= begin + size;
  const uint64_t left = inside ? size - static_cast<uint64_t>(at - begin) : 0;
  if (!inside || part_bytes > left / parts) {
    return fail(Code::kInvalidArgument,
                "{}: a buffer of {} x {} bytes is not inside the device's arena; allocate it there",
                what, parts, part_bytes);
  }
  return static_cast<uint64_t>(at - begin);
}

Result<Work> Communicator::submit(shm::Request& request, const Buffers& buffers, const char* what) {
  NPU_TRY_VOID(place_buffers(request, buffers, what));
  if (auto over = failure()) return tl::unexpected(std::move(*over));
  const auto ticket = submitter_.submit(request, sequence_);
  if (!ticket) {
    return fail(Code::kResourceExhausted,
                "{}: {} operations are outstanding; wait for one of them first", what,
                shm::kQueueDepth);
  }
  const bool is_inline = (request.flags & shm::kFlagInline) != 0;
  return Work(this, *ticket, is_inline ? buffers.recv : nullptr,
              is_inline ? static_cast<uint32_t>(buffers.count * dtype_size(buffers.dtype)) : 0);
}

namespace {

shm::Request make_request(shm::Op op, const CollectiveOptions& options) {
  return {.op = op,
          .algorithm = options.algorithm,
          .flags = options.sum_squares ? shm::kFlagSumSquares : 0,
          .timeout_ms = timeout_ms(options.timeout),
          .scale = options.scale};
}

}  // namespace

Result<Work> Communicator::all_reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                      ReduceOp op, const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kAllReduce, options);
  request.reduce_op = static_cast<uint8_t>(op);
  return submit(request, {send, recv, count, dtype}, "all-reduce");
}

Result<Work> Communicator::broadcast(void* buffer, uint64_t count, DType dtype, uint32_t root,
                                     const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kBroadcast, options);
  request.root = root;
  return submit(request, {buffer, buffer, count, dtype}, "broadcast");
}

Result<Work> Communicator::reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                  ReduceOp op, uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kReduce, options);
  request.reduce_op = static_cast<uint8_t>(op);
  request.root = root;
  return submit(request, {send, recv, count, dtype, 1, root == rank() ? 1u : 0u}, "reduce");
}

Result<Work> Communicator::all_gather(const void* send, void* recv, uint64_t count, DType dtype,
                                      const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kAllGather, options);
  return submit(request, {send, recv, count, dtype, 1, size()}, "all-gather");
}

Result<Work> Communicator::reduce_scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                          ReduceOp op, const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kReduceScatter, options);
  request.reduce_op = static_cast<uint8_t>(op);
  return submit(request, {send, recv, count, dtype, size(), 1}, "reduce-scatter");
}

Result<Work> Communicator::scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                   uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kScatter, options);
  request.root = root;
  return submit(request, {send, recv, count, dtype, root == rank() ? size() : 0, 1}, "scatter");
}

Result<Work> Communicator::gather(const void* send, void* recv, uint64_t count, DType dtype,
                                  uint32_t root, const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kGather, options);
  request.root = root;
  return submit(request, {send, recv, count, dtype, 1, root == rank() ? size() : 0}, "gather");
}

Result<Work> Communicator::all_to_all(const void* send, void* recv, uint64_t count, DType dtype,
                                      const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kAllToAll, options);
  return submit(request, {send, recv, count, dtype, size(), size()}, "all-to-all");
}

Result<Work> Communicator::barrier(const CollectiveOptions& options) {
  shm::Request request = make_request(shm::Op::kBarrier, options);
  return submit(request, {nullptr, nullptr, 0, DType::kUint8}, "barrier");
}

Result<shm::Outcome> Communicator::wait(uint64_t ticket) {
  const shm::RunBoard& board = *place_.board;
  shm::Outcome outcome;
  const auto decided = [&] {
    // The state is read before the completion: an abort published after "done" must not hide it.
    const bool over = aborted(board) || place_.failed->load(std::memory_order_acquire);
    return submitter_.poll(ticket, outcome) || over;
  };
  while (!decided()) {
    // Flag, doorbell, re-check, sleep: pairs with ring_board in the daemon.
    place_.submit->rank.waiting.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t bell = board.doorbell.value.load(std::memory_order_seq_cst);
    if (!decided()) shm::futex_wait(board.doorbell.value, bell, shm::kWaitSlice);
    place_.submit->rank.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!submitter_.poll(ticket, outcome)) return tl::unexpected(run_error());
  if (outcome.code != 0) {
    const auto code = static_cast<Code>(outcome.code);
    std::string text(outcome.error_text.data());
    if (text.empty())
      text = fmt::format("collective seq {} failed ({})", outcome.sequence, code_name(code));
    return tl::unexpected(Error{code, std::move(text), default_exit(code)});
  }
  return outcome;
}

}  // namespace npu::client
