// The collectives with one count for all ranks.
#include "client/capi/operation.hpp"

namespace npu::capi {
namespace {

/// A reduction of the program: one of the enum, or a sum with a scale.
struct Reduction {
  npu_redop_t op = NPU_SUM;
  std::optional<double> scale{};
};

struct Buffers {
  const void* send;
  void* recv;
  uint64_t count;
  npu_dtype_t dtype;
};

Result<ReduceOp> resolve(Target& at, const Reduction& reduction) {
  if (!reduction.scale) return to_reduce_op(at.what(), reduction.op);
  NPU_TRY_VOID(check_scale(at.what(), *reduction.scale));
  at.set_scale(*reduction.scale);
  return ReduceOp::kPreMulSum;
}

Result<void> all_reduce(Target at, const Buffers& b, const Reduction& reduction) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  NPU_TRY(const ReduceOp op, resolve(at, reduction));
  const Footprint use = at.footprint(range_of(b.send, b.count, dtype),
                                     range_of(b.recv, b.count, dtype), Payload::kMayTravel);
  return at.enqueue(
      use, [&] { return at.comm().all_reduce(b.send, b.recv, b.count, dtype, op, at.options()); });
}

Result<void> reduce(Target at, const Buffers& b, const Reduction& reduction, uint32_t root) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  NPU_TRY(const ReduceOp op, resolve(at, reduction));
  const uint64_t received = root == at.comm().rank() ? b.count : 0;
  const Footprint use = at.footprint(range_of(b.send, b.count, dtype),
                                     range_of(b.recv, received, dtype), Payload::kInMemory);
  return at.enqueue(use, [&] {
    return at.comm().reduce(b.send, b.recv, b.count, dtype, op, root, at.options());
  });
}

Result<void> reduce_scatter(Target at, const Buffers& b, const Reduction& reduction) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  NPU_TRY(const ReduceOp op, resolve(at, reduction));
  const Footprint use = at.footprint(range_of(b.send, b.count, dtype, at.comm().size()),
                                     range_of(b.recv, b.count, dtype), Payload::kInMemory);
  return at.enqueue(use, [&] {
    return at.comm().reduce_scatter(b.send, b.recv, b.count, dtype, op, at.options());
  });
}

Result<void> broadcast(const Target& at, const Buffers& b, uint32_t root) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  const uint64_t sent = root == at.comm().rank() ? b.count : 0;
  const Footprint use = at.footprint(range_of(b.send, sent, dtype),
                                     range_of(b.recv, b.count, dtype), Payload::kMayTravel);
  return at.enqueue(
      use, [&] { return at.comm().broadcast(b.send, b.recv, b.count, dtype, root, at.options()); });
}

Result<void> all_gather(const Target& at, const Buffers& b) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  const Footprint use =
      at.footprint(range_of(b.send, b.count, dtype),
                   range_of(b.recv, b.count, dtype, at.comm().size()), Payload::kInMemory);
  return at.enqueue(
      use, [&] { return at.comm().all_gather(b.send, b.recv, b.count, dtype, at.options()); });
}

Result<void> scatter(const Target& at, const Buffers& b, uint32_t root) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  const uint64_t sent = root == at.comm().rank() ? b.count : 0;
  const Footprint use = at.footprint(range_of(b.send, sent, dtype, at.comm().size()),
                                     range_of(b.recv, b.count, dtype), Payload::kInMemory);
  return at.enqueue(
      use, [&] { return at.comm().scatter(b.send, b.recv, b.count, dtype, root, at.options()); });
}

Result<void> gather(const Target& at, const Buffers& b, uint32_t root) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  const uint64_t received = root == at.comm().rank() ? b.count : 0;
  const Footprint use =
      at.footprint(range_of(b.send, b.count, dtype),
                   range_of(b.recv, received, dtype, at.comm().size()), Payload::kInMemory);
  return at.enqueue(
      use, [&] { return at.comm().gather(b.send, b.recv, b.count, dtype, root, at.options()); });
}

Result<void> all_to_all(const Target& at, const Buffers& b) {
  NPU_TRY(const DType dtype, to_dtype(at.what(), b.dtype));
  const uint64_t parts = at.comm().size();
  const Footprint use = at.footprint(range_of(b.send, b.count, dtype, parts),
                                     range_of(b.recv, b.count, dtype, parts), Payload::kInMemory);
  return at.enqueue(
      use, [&] { return at.comm().all_to_all(b.send, b.recv, b.count, dtype, at.options()); });
}

/// Finds where the operation goes and calls `body` with it.
template <typename Body>
npu_result_t operation(const char* what, npu_comm_t comm, npu_stream_t stream,
                       Body&& body) noexcept {
  return call(what, [&]() -> Result<void> {
    NPU_TRY(Target at, Target::find(what, comm, stream));
    return body(std::move(at));
  });
}

}  // namespace
}  // namespace npu::capi

using namespace npu::capi;  // the functions below have C names

npu_result_t npu_all_reduce(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                            npu_redop_t op, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_all_reduce", comm, stream, [&](Target at) {
    return all_reduce(std::move(at), {send, recv, count, dtype}, {op});
  });
}

npu_result_t npu_all_reduce_scaled(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                                   double scale, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_all_reduce_scaled", comm, stream, [&](Target at) {
    return all_reduce(std::move(at), {send, recv, count, dtype}, {.scale = scale});
  });
}

npu_result_t npu_reduce(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                        npu_redop_t op, uint32_t root, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_reduce", comm, stream, [&](Target at) {
    return reduce(std::move(at), {send, recv, count, dtype}, {op}, root);
  });
}

npu_result_t npu_reduce_scaled(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                               double scale, uint32_t root, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_reduce_scaled", comm, stream, [&](Target at) {
    return reduce(std::move(at), {send, recv, count, dtype}, {.scale = scale}, root);
  });
}

npu_result_t npu_broadcast(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                           uint32_t root, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_broadcast", comm, stream, [&](const Target& at) {
    return broadcast(at, {send, recv, count, dtype}, root);
  });
}

npu_result_t npu_bcast(void* buffer, uint64_t count, npu_dtype_t dtype, uint32_t root,
                       npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_bcast", comm, stream, [&](const Target& at) {
    return broadcast(at, {buffer, buffer, count, dtype}, root);
  });
}

npu_result_t npu_all_gather(const void* send, void* recv, uint64_t send_count, npu_dtype_t dtype,
                            npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_all_gather", comm, stream, [&](const Target& at) {
    return all_gather(at, {send, recv, send_count, dtype});
  });
}

npu_result_t npu_reduce_scatter(const void* send, void* recv, uint64_t recv_count,
                                npu_dtype_t dtype, npu_redop_t op, npu_comm_t comm,
                                npu_stream_t stream) {
  return operation("npu_reduce_scatter", comm, stream, [&](Target at) {
    return reduce_scatter(std::move(at), {send, recv, recv_count, dtype}, {op});
  });
}

npu_result_t npu_reduce_scatter_scaled(const void* send, void* recv, uint64_t recv_count,
                                       npu_dtype_t dtype, double scale, npu_comm_t comm,
                                       npu_stream_t stream) {
  return operation("npu_reduce_scatter_scaled", comm, stream, [&](Target at) {
    return reduce_scatter(std::move(at), {send, recv, recv_count, dtype}, {.scale = scale});
  });
}

npu_result_t npu_scatter(const void* send, void* recv, uint64_t recv_count, npu_dtype_t dtype,
                         uint32_t root, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_scatter", comm, stream, [&](const Target& at) {
    return scatter(at, {send, recv, recv_count, dtype}, root);
  });
}

npu_result_t npu_gather(const void* send, void* recv, uint64_t send_count, npu_dtype_t dtype,
                        uint32_t root, npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_gather", comm, stream, [&](const Target& at) {
    return gather(at, {send, recv, send_count, dtype}, root);
  });
}

npu_result_t npu_all_to_all(const void* send, void* recv, uint64_t count, npu_dtype_t dtype,
                            npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_all_to_all", comm, stream, [&](const Target& at) {
    return all_to_all(at, {send, recv, count, dtype});
  });
}

npu_result_t npu_barrier(npu_comm_t comm, npu_stream_t stream) {
  return operation("npu_barrier", comm, stream, [](const Target& at) {
    return at.enqueue(Footprint{}, [&] { return at.comm().barrier(at.options()); });
  });
}
