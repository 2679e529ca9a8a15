// One rank in this process: its device, what it has enqueued, and the communicators and streams
// that the program's handles name.
#pragma once

#include <npu/npu.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "client/api/device.hpp"
#include "client/api/region_allocator.hpp"
#include "client/capi/handle_table.hpp"
#include "client/capi/outstanding.hpp"
#include "client/capi/settings.hpp"

namespace npu::capi {

class Rank;

/// What an npu_comm_t names. `communicator` is the device's world, or what `owned` holds.
struct Comm {
  std::shared_ptr<Rank> rank;
  std::unique_ptr<client::Communicator> owned;
  client::Communicator* communicator = nullptr;
  std::string name;
  bool closing = false;  // guarded by the rank's submission order
  [[nodiscard]] uint32_t id() const noexcept { return communicator->membership().id; }
};

/// What an npu_stream_t names. It may outlive its rank; it is empty then.
struct StreamRef {
  std::weak_ptr<Rank> rank;
  uint8_t id = 0;
};

/// Invariants: (1) submissions and their places in Outstanding have the same order; (2) the device
/// is detached once, with the last communicator. Thread: any. Owned by its communicators and by
/// calls in progress.
class Rank {
 public:
  Rank(std::unique_ptr<client::Device> device, client::CollectiveOptions options);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] client::Device& device() noexcept { return *device_; }
  [[nodiscard]] client::RegionAllocator& memory() noexcept { return memory_; }
  [[nodiscard]] Outstanding& outstanding() noexcept { return outstanding_; }
  [[nodiscard]] const client::CollectiveOptions& options() const noexcept { return options_; }

  /// The handle of stream 0, given by name_default_stream; it ends with the rank.
  [[nodiscard]] npu_stream_t default_stream() const noexcept { return default_stream_; }
  static void name_default_stream(const std::shared_ptr<Rank>& rank);

  /// Calls `submit`, which returns a Result of Work or Batch, and keeps the handles. Waits first
  /// for what stands in the way, and tries again when the device has no room.
  template <typename Submit>
  [[nodiscard]] Result<void> enqueue(Comm& comm, uint8_t stream, std::span<const Footprint> uses,
                                     Submit&& submit);
  /// Makes room for a call of the C++ interface that submits and waits by itself.
  void make_room_to_block();

  /// No operation is enqueued on `comm` afterwards.
  void close(Comm& comm);
  void opened();
  /// One communicator fewer; detaches with the last.
  [[nodiscard]] Result<void> closed();

 private:
  static std::span<client::Work> works_of(client::Work& work) noexcept { return {&work, 1}; }
  static std::span<client::Work> works_of(client::Batch& batch) noexcept { return batch.works(); }

  client::CollectiveOptions options_;
  std::unique_ptr<client::Device> device_;
  client::RegionAllocator memory_;
  Outstanding outstanding_;
  npu_stream_t default_stream_ = nullptr;
  // Held while a submission is made; obstacles are waited for without it. The C++ interface needs
  // no lock here; a stream that takes back what its ring has no room for must know the order.
  std::mutex order_;
  uint32_t open_ = 0;  // communicators; guarded by order_
};

template <typename Submit>
Result<void> Rank::enqueue(Comm& comm, uint8_t stream, std::span<const Footprint> uses,
                           Submit&& submit) {
  for (;;) {
    std::unique_lock order(order_);
    if (comm.closing) {
      return fail(Code::kFailedPrecondition,
                  "enqueue: communicator '{}' is being destroyed by another thread; enqueue before",
                  comm.name);
    }
    if (const auto obstacle = outstanding_.obstacle(stream, uses)) {
      order.unlock();
      outstanding_.finish(*obstacle);
      continue;
    }
    const uint64_t before = outstanding_.finished();
    auto submitted = submit();
    if (submitted) {
      outstanding_.add(works_of(*submitted), uses, stream, comm.id());
      return {};
    }
    order.unlock();
    // Most likely the staging region is full: what is finished gives its copies back.
    const bool again = submitted.error().code == Code::kResourceExhausted &&
                       (outstanding_.finish_oldest() || outstanding_.finished() != before);
    if (!again) return tl::unexpected(std::move(submitted.error()));
  }
}

/// All handles of the process. A C interface has nobody who could own them.
[[nodiscard]] HandleTable<Comm>& comms();
[[nodiscard]] HandleTable<StreamRef>& streams();

/// Errors: invalid_argument (null, destroyed, or never a handle). `what`: the calling function.
[[nodiscard]] Result<std::shared_ptr<Comm>> find_comm(npu_comm_t handle, const char* what);
/// The stream's index; null is the default stream. Errors: as above, or of another rank.
[[nodiscard]] Result<uint8_t> find_stream_of(const Comm& comm, npu_stream_t handle,
                                             const char* what);

[[nodiscard]] npu_comm_t to_handle(std::shared_ptr<Comm> comm);
[[nodiscard]] npu_stream_t to_handle(StreamRef stream);
[[nodiscard]] tl::unexpected<Error> null_pointer(const char* what, const char* argument);

}  // namespace npu::capi
