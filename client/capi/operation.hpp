// What all operations of the C interface share: the checks of their arguments, and which memory
// they touch.
#pragma once

#include <npu/npu.h>

#include "client/capi/call.hpp"
#include "client/capi/rank.hpp"
#include "shm/base/dtype.hpp"

namespace npu::capi {

/// Errors: invalid_argument naming the value and what is allowed.
[[nodiscard]] Result<DType> to_dtype(const char* what, npu_dtype_t dtype);
[[nodiscard]] Result<ReduceOp> to_reduce_op(const char* what, npu_redop_t op);
[[nodiscard]] Result<void> check_scale(const char* what, double scale);

/// Whether the payload may travel in the request, if it is small.
enum class Payload : uint8_t { kInMemory, kMayTravel };

/// Where an operation goes: looked up once, kept alive for the call.
class Target {
 public:
  /// Errors: invalid_argument for either handle.
  [[nodiscard]] static Result<Target> find(const char* what, npu_comm_t comm, npu_stream_t stream);

  [[nodiscard]] const char* what() const noexcept { return what_; }
  [[nodiscard]] client::Communicator& comm() const noexcept { return *comm_->communicator; }
  [[nodiscard]] const client::CollectiveOptions& options() const noexcept { return options_; }
  void set_scale(double scale) noexcept { options_.scale = scale; }

  [[nodiscard]] Footprint footprint(MemoryRange reads, MemoryRange writes,
                                    Payload payload) const noexcept;
  /// `submit`: as Rank::enqueue.
  template <typename Submit>
  [[nodiscard]] Result<void> enqueue(std::span<const Footprint> uses, Submit&& submit) const {
    return comm_->rank->enqueue(*comm_, options_.stream.id, uses, std::forward<Submit>(submit));
  }
  template <typename Submit>
  [[nodiscard]] Result<void> enqueue(const Footprint& use, Submit&& submit) const {
    return enqueue(std::span<const Footprint>(&use, 1), std::forward<Submit>(submit));
  }

 private:
  Target(const char* what, std::shared_ptr<Comm> comm, uint8_t stream)
      : what_(what), comm_(std::move(comm)), options_(comm_->rank->options()) {
    options_.stream.id = stream;
  }
  const char* what_;
  std::shared_ptr<Comm> comm_;
  client::CollectiveOptions options_;
};

/// `parts` times `elements` from `begin` on; as large as it can be if that overflows, which the C++
/// interface then refuses.
[[nodiscard]] MemoryRange range_of(const void* begin, uint64_t elements, DType dtype,
                                   uint64_t parts = 1) noexcept;
/// From `begin` to the end of the last part.
[[nodiscard]] MemoryRange range_of(const void* begin, const client::Layout& parts,
                                   DType dtype) noexcept;

}  // namespace npu::capi
