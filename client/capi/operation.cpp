#include "client/capi/operation.hpp"

#include <algorithm>
#include <cmath>

namespace npu::capi {

static_assert(NPU_INT8 == static_cast<int>(DType::kInt8));
static_assert(NPU_INT16 == static_cast<int>(DType::kInt16));
static_assert(NPU_INT32 == static_cast<int>(DType::kInt32));
static_assert(NPU_FLOAT16 == static_cast<int>(DType::kFloat16));
static_assert(NPU_FLOAT32 == static_cast<int>(DType::kFloat32));
static_assert(NPU_INT64 == static_cast<int>(DType::kInt64));
static_assert(NPU_UINT64 == static_cast<int>(DType::kUint64));
static_assert(NPU_UINT8 == static_cast<int>(DType::kUint8));
static_assert(NPU_UINT16 == static_cast<int>(DType::kUint16));
static_assert(NPU_UINT32 == static_cast<int>(DType::kUint32));
static_assert(NPU_FLOAT64 == static_cast<int>(DType::kFloat64));
static_assert(NPU_BFLOAT16 == static_cast<int>(DType::kBFloat16));
static_assert(NPU_BFLOAT16 + 1 == kDTypeCount);

static_assert(NPU_SUM == static_cast<int>(ReduceOp::kSum));
static_assert(NPU_PROD == static_cast<int>(ReduceOp::kProd));
static_assert(NPU_MAX == static_cast<int>(ReduceOp::kMax));
static_assert(NPU_MIN == static_cast<int>(ReduceOp::kMin));
static_assert(NPU_MEAN == static_cast<int>(ReduceOp::kMean));
static_assert(NPU_PREMUL_SUM == static_cast<int>(ReduceOp::kPreMulSum));
static_assert(NPU_PREMUL_SUM + 1 == kReduceOpCount);

static_assert(NPU_ALGORITHM_AUTO == static_cast<int>(shm::Algorithm::kAuto));
static_assert(NPU_ALGORITHM_RING == static_cast<int>(shm::Algorithm::kRing));
static_assert(NPU_ALGORITHM_DIRECT == static_cast<int>(shm::Algorithm::kDirect));
static_assert(NPU_BATCH_ITEMS == client::Batch::kMaxItems);

Result<DType> to_dtype(const char* what, npu_dtype_t dtype) {
  const auto number = static_cast<int64_t>(dtype);
  if (number >= 0 && number < kDTypeCount) return static_cast<DType>(number);
  return fail(Code::kInvalidArgument,
              "{}: element type {}; allowed: NPU_INT8 (0) to NPU_BFLOAT16 ({})", what, number,
              kDTypeCount - 1);
}

Result<ReduceOp> to_reduce_op(const char* what, npu_redop_t op) {
  const auto number = static_cast<int64_t>(op);
  if (number >= 0 && number < NPU_PREMUL_SUM) return static_cast<ReduceOp>(number);
  return fail(
      Code::kInvalidArgument,
      "{}: reduction {}; allowed: NPU_SUM (0) to NPU_MEAN ({}); sums with a scale are calls "
      "of their own, such as npu_all_reduce_scaled",
      what, number, NPU_PREMUL_SUM - 1);
}

Result<void> check_scale(const char* what, double scale) {
  if (std::isfinite(scale)) return {};
  return fail(Code::kInvalidArgument, "{}: scale {}; allowed: a finite number", what, scale);
}

Result<Target> Target::find(const char* what, npu_comm_t comm, npu_stream_t stream) {
  NPU_TRY(auto found, find_comm(comm, what));
  NPU_TRY(const uint8_t id, find_stream_of(*found, stream, what));
  return Target(what, std::move(found), id);
}

Footprint Target::footprint(MemoryRange reads, MemoryRange writes, Payload payload) const noexcept {
  const auto arena = comm().queue().place().arena;
  const auto begin = reinterpret_cast<uintptr_t>(arena.data());
  // As the C++ interface places a buffer: by where it begins.
  const auto outside = [&](const MemoryRange& range) {
    return range.bytes != 0 && (range.begin < begin || range.begin - begin >= arena.size());
  };
  const bool travels =
      payload == Payload::kMayTravel && std::max(reads.bytes, writes.bytes) <= shm::kInlineBytes;
  return {.reads = reads,
          .writes = writes,
          .captures = travels || outside(reads) || outside(writes),
          .late = writes.bytes != 0 && (travels || outside(writes))};
}

MemoryRange range_of(const void* begin, uint64_t elements, DType dtype, uint64_t parts) noexcept {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements, parts, &bytes) ||
      __builtin_mul_overflow(bytes, uint64_t{dtype_size(dtype)}, &bytes)) {
    bytes = UINT64_MAX;
  }
  return {reinterpret_cast<uintptr_t>(begin), bytes};
}

MemoryRange range_of(const void* begin, const client::Layout& parts, DType dtype) noexcept {
  uint64_t elements = 0;
  for (size_t r = 0; r < parts.counts.size(); ++r) {
    uint64_t end = 0;
    if (__builtin_add_overflow(parts.counts[r], parts.displs[r], &end)) end = UINT64_MAX;
    if (parts.counts[r] != 0) elements = std::max(elements, end);
  }
  return range_of(begin, elements, dtype);
}

}  // namespace npu::capi
