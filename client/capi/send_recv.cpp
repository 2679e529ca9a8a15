// Send, receive and batches of both.
#include <array>

#include "client/capi/operation.hpp"

namespace npu::capi {
namespace {

using Kind = client::PointToPoint::Kind;

static_assert(NPU_SEND == static_cast<int>(Kind::kSend));
static_assert(NPU_RECV == static_cast<int>(Kind::kRecv));

Footprint footprint(const Target& at, const client::PointToPoint& item) noexcept {
  const MemoryRange range = range_of(item.buffer, item.count, item.dtype);
  const bool sends = item.kind == Kind::kSend;
  return at.footprint(sends ? range : MemoryRange{}, sends ? MemoryRange{} : range,
                      Payload::kMayTravel);
}

Result<client::PointToPoint> to_item(const Target& at, uint32_t index,
                                     const npu_send_recv_item_t& item) {
  if (item.kind != NPU_SEND && item.kind != NPU_RECV) {
    return fail(Code::kInvalidArgument, "{}: item {} has kind {}; allowed: NPU_SEND, NPU_RECV",
                at.what(), index, static_cast<int64_t>(item.kind));
  }
  NPU_TRY(const DType dtype, to_dtype(at.what(), item.dtype));
  return client::PointToPoint{item.kind == NPU_SEND ? Kind::kSend : Kind::kRecv, item.buffer,
                              item.count, dtype, item.peer};
}

Result<void> batch(const Target& at, const npu_send_recv_item_t* items, uint32_t n) {
  if (n == 0) return {};
  if (items == nullptr) return null_pointer(at.what(), "the array of items");
  if (n > NPU_BATCH_ITEMS) {
    return fail(Code::kInvalidArgument, "{}: {} items; allowed: at most {} in a batch", at.what(),
                n, NPU_BATCH_ITEMS);
  }
  std::array<client::PointToPoint, NPU_BATCH_ITEMS> checked;
  std::array<Footprint, NPU_BATCH_ITEMS> uses;
  for (uint32_t i = 0; i < n; ++i) {
    NPU_TRY(checked[i], to_item(at, i, items[i]));
    uses[i] = footprint(at, checked[i]);
  }
  return at.enqueue(std::span<const Footprint>(uses.data(), n), [&] {
    return at.comm().batch({checked.data(), n}, at.options());
  });
}

}  // namespace
}  // namespace npu::capi

using namespace npu;  // the functions below have C names

npu_result_t npu_send(const void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t peer,
                      npu_comm_t comm, npu_stream_t stream) {
  return capi::call("npu_send", [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find("npu_send", comm, stream));
    NPU_TRY(const DType type, capi::to_dtype("npu_send", dtype));
    const auto use = at.footprint(capi::range_of(buffer, count, type), capi::MemoryRange{},
                                  capi::Payload::kMayTravel);
    return at.enqueue(use, [&] { return at.comm().send(buffer, count, type, peer, at.options()); });
  });
}

npu_result_t npu_recv(void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t peer,
                      npu_comm_t comm, npu_stream_t stream) {
  return capi::call("npu_recv", [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find("npu_recv", comm, stream));
    NPU_TRY(const DType type, capi::to_dtype("npu_recv", dtype));
    const auto use = at.footprint(capi::MemoryRange{}, capi::range_of(buffer, count, type),
                                  capi::Payload::kMayTravel);
    return at.enqueue(use, [&] { return at.comm().recv(buffer, count, type, peer, at.options()); });
  });
}

npu_result_t npu_batch_send_recv(const npu_send_recv_item_t* items, uint32_t n, npu_comm_t comm,
                                 npu_stream_t stream) {
  return capi::call("npu_batch_send_recv", [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find("npu_batch_send_recv", comm, stream));
    return capi::batch(at, items, n);
  });
}
