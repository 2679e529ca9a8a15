// The collectives with a count of its own for every rank.
#include "client/capi/operation.hpp"

namespace npu::capi {
namespace {

Result<client::Layout> layout(const Target& at, const uint64_t* counts, const uint64_t* displs) {
  if (counts == nullptr) return null_pointer(at.what(), "an array of counts");
  if (displs == nullptr) return null_pointer(at.what(), "an array of displacements");
  return client::Layout{{counts, at.comm().size()}, {displs, at.comm().size()}};
}

Result<void> check_own(const Target& at, const client::Layout& parts, uint64_t own) {
  const uint32_t rank = at.comm().rank();
  if (parts.counts[rank] == own) return {};
  return fail(Code::kInvalidArgument, "{}: the count of this rank is {}, but counts[{}] is {}",
              at.what(), own, rank, parts.counts[rank]);
}

Result<void> all_gather_v(const Target& at, const void* send, uint64_t own, void* recv,
                          const client::Layout& parts, npu_dtype_t type) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), type));
  NPU_TRY_VOID(check_own(at, parts, own));
  const Footprint use =
      at.footprint(range_of(send, own, dtype), range_of(recv, parts, dtype), Payload::kInMemory);
  return at.enqueue(use,
                    [&] { return at.comm().all_gather_v(send, recv, parts, dtype, at.options()); });
}

Result<void> reduce_scatter_v(const Target& at, const void* send, const client::Layout& parts,
                              void* recv, uint64_t own, npu_dtype_t type, npu_redop_t redop) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), type));
  NPU_TRY(const ReduceOp op, to_reduce_op(at.what(), redop));
  NPU_TRY_VOID(check_own(at, parts, own));
  const Footprint use =
      at.footprint(range_of(send, parts, dtype), range_of(recv, own, dtype), Payload::kInMemory);
  return at.enqueue(
      use, [&] { return at.comm().reduce_scatter_v(send, recv, parts, dtype, op, at.options()); });
}

Result<void> all_to_all_v(const Target& at, const void* send, const client::Layout& send_parts,
                          void* recv, const client::Layout& recv_parts, npu_dtype_t type) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), type));
  const Footprint use = at.footprint(range_of(send, send_parts, dtype),
                                     range_of(recv, recv_parts, dtype), Payload::kInMemory);
  return at.enqueue(use, [&] {
    return at.comm().all_to_all_v(send, send_parts, recv, recv_parts, dtype, at.options());
  });
}

}  // namespace
}  // namespace npu::capi

using namespace npu;  // the functions below have C names

npu_result_t npu_all_gather_v(const void* send, uint64_t send_count, void* recv,
                              const uint64_t* recv_counts, const uint64_t* recv_displs,
                              npu_dtype_t dtype, npu_comm_t comm, npu_stream_t stream) {
  constexpr const char* kWhat = "npu_all_gather_v";
  return capi::call(kWhat, [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find(kWhat, comm, stream));
    NPU_TRY(const auto parts, capi::layout(at, recv_counts, recv_displs));
    return capi::all_gather_v(at, send, send_count, recv, parts, dtype);
  });
}

npu_result_t npu_reduce_scatter_v(const void* send, const uint64_t* send_counts,
                                  const uint64_t* send_displs, void* recv, uint64_t recv_count,
                                  npu_dtype_t dtype, npu_redop_t op, npu_comm_t comm,
                                  npu_stream_t stream) {
  constexpr const char* kWhat = "npu_reduce_scatter_v";
  return capi::call(kWhat, [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find(kWhat, comm, stream));
    NPU_TRY(const auto parts, capi::layout(at, send_counts, send_displs));
    return capi::reduce_scatter_v(at, send, parts, recv, recv_count, dtype, op);
  });
}

npu_result_t npu_all_to_all_v(const void* send, const uint64_t* send_counts,
                              const uint64_t* send_displs, void* recv, const uint64_t* recv_counts,
                              const uint64_t* recv_displs, npu_dtype_t dtype, npu_comm_t comm,
                              npu_stream_t stream) {
  constexpr const char* kWhat = "npu_all_to_all_v";
  return capi::call(kWhat, [&]() -> Result<void> {
    NPU_TRY(const auto at, capi::Target::find(kWhat, comm, stream));
    NPU_TRY(const auto sent, capi::layout(at, send_counts, send_displs));
    NPU_TRY(const auto received, capi::layout(at, recv_counts, recv_displs));
    return capi::all_to_all_v(at, send, sent, recv, received, dtype);
  });
}
