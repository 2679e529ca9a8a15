#include "client/capi/rank.hpp"

namespace npu::capi {

Rank::Rank(std::unique_ptr<client::Device> device, client::CollectiveOptions options)
    : options_(options), device_(std::move(device)), memory_(device_->arena()) {}

Rank::~Rank() { (void)streams().remove(reinterpret_cast<uintptr_t>(default_stream_)); }

void Rank::name_default_stream(const std::shared_ptr<Rank>& rank) {
  rank->default_stream_ = to_handle(StreamRef{rank, 0});
}

void Rank::make_room_to_block() {
  for (;;) {
    std::unique_lock order(order_);
    const auto obstacle = outstanding_.obstacle(0, {});
    if (!obstacle) {
      outstanding_.count_blocking();
      return;
    }
    order.unlock();
    outstanding_.finish(*obstacle);
  }
}

void Rank::close(Comm& comm) {
  const std::lock_guard order(order_);
  comm.closing = true;
}

void Rank::opened() {
  const std::lock_guard order(order_);
  ++open_;
}

Result<void> Rank::closed() {
  {
    const std::lock_guard order(order_);
    if (--open_ != 0) return {};
  }
  return device_->detach();
}

// Both tables are left behind at exit on purpose: other threads may still be inside a call, and a
// rank that ends without npu_comm_destroy looks to the daemon like what it is, a rank that died.
HandleTable<Comm>& comms() {
  static auto* const table = std::make_unique<HandleTable<Comm>>(1).release();
  return *table;
}

HandleTable<StreamRef>& streams() {
  static auto* const table = std::make_unique<HandleTable<StreamRef>>(2).release();
  return *table;
}

Result<std::shared_ptr<Comm>> find_comm(npu_comm_t handle, const char* what) {
  if (handle == nullptr) return null_pointer(what, "the communicator");
  auto comm = comms().find(reinterpret_cast<uintptr_t>(handle));
  if (comm != nullptr) return comm;
  return fail(Code::kInvalidArgument,
              "{}: {} is no communicator: it was destroyed, or did not come from "
              "npu_comm_init_rank or npu_comm_split",
              what, static_cast<const void*>(handle));
}

Result<uint8_t> find_stream_of(const Comm& comm, npu_stream_t handle, const char* what) {
  if (handle == nullptr) return uint8_t{0};
  const auto stream = streams().find(reinterpret_cast<uintptr_t>(handle));
  if (stream == nullptr) {
    return fail(Code::kInvalidArgument,
                "{}: {} is no stream: it was destroyed, or did not come from npu_stream_create",
                what, static_cast<const void*>(handle));
  }
  if (stream->rank.lock() == comm.rank) return stream->id;
  return fail(Code::kInvalidArgument,
              "{}: the stream is not one of rank {} of run '{}'; make one with npu_stream_create "
              "and a communicator of that rank",
              what, comm.rank->device().rank(), comm.name);
}

npu_comm_t to_handle(std::shared_ptr<Comm> comm) {
  return reinterpret_cast<npu_comm_t>(comms().insert(std::move(comm)));
}

npu_stream_t to_handle(StreamRef stream) {
  return reinterpret_cast<npu_stream_t>(
      streams().insert(std::make_shared<StreamRef>(std::move(stream))));
}

tl::unexpected<Error> null_pointer(const char* what, const char* argument) {
  return fail(Code::kInvalidArgument, "{}: {} is null; pass a valid one", what, argument);
}

}  // namespace npu::capi
