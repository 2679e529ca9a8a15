// npu::distribute: the three calls that make a training loop for one device one for eight, as
// npu.distribute has them: broadcast the variables, all-reduce the gradients, shard the data. C++17
// over npu/npu.h; link with libnpu. docs/distribute.md shows a loop.
//
// Nothing happens in a program that runs alone: without RANK, WORLD_SIZE and LOCAL_RANK (or
// RANK_ID, RANK_SIZE and DEVICE_ID) in the environment every call succeeds and changes nothing, so
// the program for one device and for eight is the same. Only some of them set: an error that lists
// the others.
#ifndef NPU_DISTRIBUTE_HPP
#define NPU_DISTRIBUTE_HPP

#include <npu/npu.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace npu::distribute {

/// How a call ended; `message` is empty after a success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(npu_result_t code, std::string message) : code_(code), message_(std::move(message)) {}
  explicit operator bool() const noexcept { return code_ == NPU_SUCCESS; }
  [[nodiscard]] npu_result_t code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

 private:
  npu_result_t code_ = NPU_SUCCESS;
  std::string message_;
};

enum class Reduction { kMean, kSum, kMax, kMin, kProd };

/// A variable or gradient: memory of the program. Not owned.
struct Values {
  void* data = nullptr;
  uint64_t count = 0;
  npu_dtype_t dtype = NPU_FLOAT32;

  Values() = default;
  Values(void* memory, uint64_t n, npu_dtype_t type) : data(memory), count(n), dtype(type) {}
  Values(std::vector<float>& v) : Values(v.data(), v.size(), NPU_FLOAT32) {}
  Values(std::vector<double>& v) : Values(v.data(), v.size(), NPU_FLOAT64) {}
  Values(std::vector<int8_t>& v) : Values(v.data(), v.size(), NPU_INT8) {}
  Values(std::vector<int32_t>& v) : Values(v.data(), v.size(), NPU_INT32) {}
  Values(std::vector<int64_t>& v) : Values(v.data(), v.size(), NPU_INT64) {}
};

struct AllReduceOptions {
  Reduction reduction = Reduction::kMean;
  /// fp32 values travel and are kept as fp16, as allreduce_precision="float16" has it; the sum is
  /// accumulated in fp32 and rounded once. Values beyond 65504 become infinite.
  bool fp16_wire = false;
};

namespace detail {

inline uint64_t element_bytes(npu_dtype_t dtype) noexcept {
  switch (dtype) {
    case NPU_INT8:
    case NPU_UINT8:
      return 1;
    case NPU_INT16:
    case NPU_UINT16:
    case NPU_FLOAT16:
    case NPU_BFLOAT16:
      return 2;
    case NPU_INT32:
    case NPU_UINT32:
    case NPU_FLOAT32:
      return 4;
    default:
      return 8;
  }
}

/// Rounds to nearest, ties to even; overflow to infinity, NaN stays NaN.
inline uint16_t to_half(float value) noexcept {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  uint32_t mantissa = magnitude, shift = 13, base = 0;
  if (magnitude < 0x38800000u) {  // subnormal in half precision
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return sign;  // below half of the smallest
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - exponent;
  } else {
    base = 112u << 10;
  }
  uint32_t half = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
  if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;
  return static_cast<uint16_t>(sign | (half - base));
}

inline float from_half(uint16_t half) noexcept {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = half >> 10 & 31u, mantissa = half & 0x3ffu;
  uint32_t bits = sign;
  if (exponent == 31) {
    bits |= 0x7f800000u | mantissa << 13;
  } else if (exponent != 0) {
    bits |= (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa != 0) {
    exponent = 113;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    bits |= exponent << 23 | (mantissa & 0x3ffu) << 13;
  }
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline npu_redop_t redop(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::kSum:
      return NPU_SUM;
    case Reduction::kMax:
      return NPU_MAX;
    case Reduction::kMin:
      return NPU_MIN;
    case Reduction::kProd:
      return NPU_PROD;
    case Reduction::kMean:
      break;
  }
  return NPU_MEAN;
}

}  // namespace detail

/// The rank of this process among the others. Invariant: joined once, left at the end of the
/// program. Thread: one at a time.
class Session {
 public:
  /// Joins the run NPU_RUN (else "distribute") if the environment makes this process a rank.
  Session() {
    const char* const name = std::getenv("NPU_RUN");
    npu_config_t config = NPU_CONFIG_INIT;
    check(npu_comm_init_env(&comm_, name != nullptr ? name : "distribute", &config));
    if (comm_ == nullptr) return;
    check(npu_comm_rank(comm_, &rank_));
    check(npu_comm_size(comm_, &size_));
  }
  ~Session() {
    if (comm_ != nullptr) (void)npu_comm_destroy(comm_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Why the process could not join, or what failed first.
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] bool alone() const noexcept { return comm_ == nullptr; }
  [[nodiscard]] uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] uint32_t size() const noexcept { return size_; }

  Status broadcast(const std::vector<Values>& variables, uint32_t root) {
    if (!status_ || alone()) return status_;
    for (const Values& v : variables) {
      for_pieces(v, detail::element_bytes(v.dtype), [&](char* at, uint64_t n) {
        check(npu_bcast(at, n, v.dtype, root, comm_, nullptr));
      });
    }
    return finish();
  }

  Status all_reduce(const std::vector<Values>& values, const AllReduceOptions& options) {
    if (!status_ || alone()) return status_;
    const npu_redop_t op = detail::redop(options.reduction);
    for (const Values& v : values) {
      if (options.fp16_wire && v.dtype == NPU_FLOAT32) {
        reduce_in_half(v, op);
        continue;
      }
      for_pieces(v, detail::element_bytes(v.dtype), [&](char* at, uint64_t n) {
        check(npu_all_reduce(at, at, n, v.dtype, op, comm_, nullptr));
      });
    }
    return finish();
  }

 private:
  // Fits the staging region, which holds copies of memory that is not the device's.
  static constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

  void check(npu_result_t result) {
    if (result != NPU_SUCCESS && status_) status_ = {result, npu_last_error()};
  }

  template <typename Body>
  void for_pieces(const Values& v, uint64_t bytes, const Body& body) {
    const uint64_t step = kPieceBytes / bytes;
    for (uint64_t done = 0; done < v.count && status_; done += step) {
      body(static_cast<char*>(v.data) + done * bytes, std::min(step, v.count - done));
    }
  }

  void reduce_in_half(const Values& v, npu_redop_t op) {
    std::vector<uint16_t> half(std::min<uint64_t>(v.count, kPieceBytes / 2));
    for (uint64_t done = 0; done < v.count && status_; done += half.size()) {
      const uint64_t n = std::min<uint64_t>(half.size(), v.count - done);
      float* const at = static_cast<float*>(v.data) + done;
      for (uint64_t i = 0; i < n; ++i) half[i] = detail::to_half(at[i]);
      check(npu_all_reduce(half.data(), half.data(), n, NPU_FLOAT16, op, comm_, nullptr));
      check(synchronize());
      for (uint64_t i = 0; i < n; ++i) at[i] = detail::from_half(half[i]);
    }
  }

  /// The stream of this rank by name, for programs whose ranks are threads.
  npu_result_t synchronize() {
    npu_stream_t stream = nullptr;
    const npu_result_t got = npu_comm_default_stream(comm_, &stream);
    return got == NPU_SUCCESS ? npu_stream_synchronize(stream) : got;
  }

  Status finish() {
    check(synchronize());
    return status_;
  }

  npu_comm_t comm_ = nullptr;
  uint32_t rank_ = 0, size_ = 1;
  Status status_;
};

/// The session of this process, joined at the first call. The one global of this interface:
/// npu.distribute, which it stands for, has no handle that could carry it.
inline Session& session() {
  static Session the_session;
  return the_session;
}

/// Rank of this process and number of ranks; 0 of 1 when it runs alone.
inline uint32_t rank() { return session().rank(); }
inline uint32_t size() { return session().size(); }

/// `variables` of every rank become those of rank `root`: all of them, trainable or not, and the
/// optimizer's. Every rank passes the same counts and types in the same order. Errors: those of
/// npu_broadcast; a half-set environment.
inline Status broadcast(const std::vector<Values>& variables, uint32_t root = 0) {
  return session().broadcast(variables, root);
}

/// Each value of every rank becomes the reduction over all ranks, mean unless said otherwise.
/// Every rank ends with the same bits.
inline Status all_reduce(const std::vector<Values>& values, const AllReduceOptions& options = {}) {
  return session().all_reduce(values, options);
}
inline Status all_reduce(const std::vector<Values>& values, Reduction reduction) {
  return session().all_reduce(values, AllReduceOptions{reduction, false});
}

/// Every size()-th sample of `dataset`, beginning with number rank(): a view, which must not
/// outlive it. All ranks have the same number of samples, so none runs out before the others; up
/// to size() - 1 at the end belong to nobody.
template <typename Dataset>
class Shard {
 public:
  Shard(const Dataset& dataset, uint32_t rank, uint32_t ranks)
      : dataset_(&dataset), rank_(rank), ranks_(ranks) {}
  [[nodiscard]] size_t size() const { return dataset_->size() / ranks_; }
  decltype(auto) operator[](size_t i) const { return (*dataset_)[index(i)]; }
  /// Number in the whole data set of sample `i` of the shard.
  [[nodiscard]] size_t index(size_t i) const { return i * ranks_ + rank_; }

 private:
  const Dataset* dataset_;
  uint32_t rank_, ranks_;
};

template <typename Dataset>
struct Sharded {
  Status status;
  Shard<Dataset> dataset;
  uint64_t batch = 0;  // of this rank
};

/// This rank's part of a data set, which has size() and operator[], and of the global batch.
/// Errors: NPU_INVALID_ARGUMENT when the batch does not divide by the ranks (with the nearest two
/// that do), and a half-set environment; the data set is then whole and the batch as given.
template <typename Dataset>
Sharded<Dataset> shard_and_rebatch_dataset(const Dataset& dataset, uint64_t global_batch) {
  const uint32_t n = size();
  Sharded<Dataset> out{session().status(), {dataset, 0, 1}, global_batch};
  if (!out.status) return out;
  if (global_batch == 0 || global_batch % n != 0) {
    const uint64_t below = global_batch / n * n;
    out.status = {NPU_INVALID_ARGUMENT, "shard_and_rebatch_dataset: a global batch of " +
                                            std::to_string(global_batch) + " over " +
                                            std::to_string(n) + " ranks; use " +
                                            (below == 0 ? "" : std::to_string(below) + " or ") +
                                            std::to_string(below + n)};
    return out;
  }
  out.dataset = {dataset, rank(), n};
  out.batch = global_batch / n;
  return out;
}

}  // namespace npu::distribute

#endif
