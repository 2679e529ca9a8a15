// Collectives over the ranks of a communicator, as seen by one rank: a call publishes a descriptor
// and returns a handle; the daemon's engines do the work in the ranks' arenas.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "client/api/device_queue.hpp"
#include "client/api/work.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

/// An ordered queue of one rank: its operations run one after the other, those of different streams
/// do not wait for each other. Made by Device::create_stream; the default is stream 0.
struct Stream {
  uint8_t id = 0;
};

struct CollectiveOptions {
  /// kAuto: NPU_COLL_ALGO, else the daemon's cost model.
  shm::Algorithm algorithm = shm::Algorithm::kAuto;
  /// From the moment it waits for a rank; 0 = never. Empty: NPU_COLL_TIMEOUT, else a minute.
  std::optional<milliseconds> timeout;
  bool sum_squares = false;
  /// fp16/bf16 sum and mean: accumulate in fp64. The bits of fp16 then do not depend on the order
  /// of ranks; those of bf16 only if the sum is exact in fp64. Cost: the kernels' README.
  bool strict = false;
  double scale = 1.0;  // premulsum
  Stream stream = {};
};

/// Counts and displacements of a v form, in elements by rank; as many as the communicator has
/// ranks.
struct Layout {
  std::span<const uint64_t> counts, displs;
};

/// One item of a batch.
struct PointToPoint {
  enum class Kind : uint8_t { kSend, kRecv };
  Kind kind = Kind::kSend;
  void* buffer = nullptr;
  uint64_t count = 0;
  DType dtype = DType::kFloat32;
  uint32_t peer = 0;
};

/// The handles of a batch.
class Batch {
 public:
  static constexpr size_t kMaxItems = 64;

  /// Waits for all; the first error is returned, after all have ended.
  [[nodiscard]] Result<void> wait() { return wait(Deadline::never()); }
  [[nodiscard]] Result<void> wait(Deadline deadline);

  /// One handle an item, for a caller who keeps and waits for them itself.
  [[nodiscard]] std::span<Work> works() noexcept { return {works_.data(), n_}; }

 private:
  friend class Communicator;
  std::array<Work, kMaxItems> works_;
  size_t n_ = 0;
  std::optional<Error> failed_;
};

/// Which ranks form a communicator; what split answers.
struct Membership {
  uint32_t id = 0;  // 0 = the world
  uint32_t rank = 0, size = 1;
  std::array<uint8_t, shm::kMaxDevices> world_ranks{};  // by rank of the communicator
};

/// Buffers should lie in the device's arena. Payloads of at most 40 bytes travel in the descriptor
/// and may lie anywhere; others outside the arena are copied through the staging region, if the
/// device was attached with one, and counted. Both kinds are taken when the call is made and given
/// back by wait(), so they do not see operations that are outstanding before them. Operations of
/// one communicator run in submission order on every rank. Thread: any; two threads on one
/// communicator are safe, their operations are ordered as they happen to be submitted. Nothing here
/// allocates or locks but split and staging.
class Communicator {
 public:
  Communicator(DeviceQueue& queue, const Membership& membership);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// recv[i] = reduction over ranks of send[i], folded in ascending rank order. `send` may be
  /// `recv`.
  [[nodiscard]] Result<Work> all_reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                        ReduceOp op, const CollectiveOptions& options = {});
  /// `buffer` of every rank becomes rank `root`'s.
  [[nodiscard]] Result<Work> broadcast(void* buffer, uint64_t count, DType dtype, uint32_t root,
                                       const CollectiveOptions& options = {});
  /// As above, out of place: only root's `send` is read; on root it may be `recv`.
  [[nodiscard]] Result<Work> broadcast(const void* send, void* recv, uint64_t count, DType dtype,
                                       uint32_t root, const CollectiveOptions& options);
  /// As all_reduce, but only rank `root`'s recv is written; others may pass null.
  [[nodiscard]] Result<Work> reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                    ReduceOp op, uint32_t root,
                                    const CollectiveOptions& options = {});
  /// recv (size() * count) = every rank's send (count) in rank order. In place: send == recv +
  /// rank() * count.
  [[nodiscard]] Result<Work> all_gather(const void* send, void* recv, uint64_t count, DType dtype,
                                        const CollectiveOptions& options = {});
  /// Rank r contributes parts.counts[r] elements, found at recv + parts.displs[r]. Counts are equal
  /// on all ranks, displacements are each rank's own. In place: send == recv + displs[rank()].
  [[nodiscard]] Result<Work> all_gather_v(const void* send, void* recv, const Layout& parts,
                                          DType dtype, const CollectiveOptions& options = {});
  /// recv (count) = this rank's part of the reduction of send (size() * count). In place: recv ==
  /// send + rank() * count.
  [[nodiscard]] Result<Work> reduce_scatter(const void* send, void* recv, uint64_t count,
                                            DType dtype, ReduceOp op,
                                            const CollectiveOptions& options = {});
  /// Part r has parts.counts[r] elements at send + parts.displs[r]; counts are equal on all ranks.
  [[nodiscard]] Result<Work> reduce_scatter_v(const void* send, void* recv, const Layout& parts,
                                              DType dtype, ReduceOp op,
                                              const CollectiveOptions& options = {});
  /// recv (count) = this rank's part of root's send (size() * count); `send` may be null elsewhere.
  [[nodiscard]] Result<Work> scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                     uint32_t root, const CollectiveOptions& options = {});
  /// Root's recv (size() * count) = every rank's send (count); `recv` may be null elsewhere.
  [[nodiscard]] Result<Work> gather(const void* send, void* recv, uint64_t count, DType dtype,
                                    uint32_t root, const CollectiveOptions& options = {});
  /// Part i of recv = part rank() of rank i's send, count elements a part. Not in place.
  [[nodiscard]] Result<Work> all_to_all(const void* send, void* recv, uint64_t count, DType dtype,
                                        const CollectiveOptions& options = {});
  /// As above with counts and displacements of its own for every pair: what i sends to j must be
  /// what j expects from i. Not in place; received parts must not overlap.
  [[nodiscard]] Result<Work> all_to_all_v(const void* send, const Layout& send_parts, void* recv,
                                          const Layout& recv_parts, DType dtype,
                                          const CollectiveOptions& options = {});
  /// `count` elements to rank `peer`, whose recv must agree in count and type. Both are done when
  /// the data has arrived. First in, first out for each source and destination.
  [[nodiscard]] Result<Work> send(const void* buffer, uint64_t count, DType dtype, uint32_t peer,
                                  const CollectiveOptions& options = {});
  [[nodiscard]] Result<Work> recv(void* buffer, uint64_t count, DType dtype, uint32_t peer,
                                  const CollectiveOptions& options = {});
  /// Sends and receives that start together, in one step of the stream: no order among them can
  /// deadlock. At most Batch::kMaxItems.
  [[nodiscard]] Result<Batch> batch(std::span<const PointToPoint> items,
                                    const CollectiveOptions& options = {});
  /// Completes when every rank has called it.
  [[nodiscard]] Result<Work> barrier(const CollectiveOptions& options = {});

  /// Members of equal `color` form a new communicator, ordered by `key`, then by rank; null for a
  /// negative colour. Every member must call it; blocks. The new one must not outlive the device.
  /// Errors: resource_exhausted (64 exist in the run). Source: MPI_Comm_split.
  [[nodiscard]] Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key,
                                                            const CollectiveOptions& options = {});
  /// Ends the communicator once every member asks for it, after what was submitted before. Blocks;
  /// every later call is failed_precondition. Sends and receives without a partner must not be
  /// left.
  [[nodiscard]] Result<void> destroy(const CollectiveOptions& options = {});

  /// Until resume(), this rank's later calls on the communicator are refused with
  /// failed_precondition, and take no sequence number; what was submitted goes on. For a
  /// checkpoint: suspend, wait for what is outstanding, write, resume. Source: HcclCommSuspend.
  void suspend() noexcept { suspended_.store(true, std::memory_order_release); }
  void resume() noexcept { suspended_.store(false, std::memory_order_release); }

  /// Why the run is over, if it is. Every later call returns this.
  [[nodiscard]] std::optional<Error> failure() const { return queue_.failure(); }

  [[nodiscard]] uint32_t rank() const noexcept { return membership_.rank; }
  [[nodiscard]] uint32_t size() const noexcept { return membership_.size; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] DeviceQueue& queue() noexcept { return queue_; }

 private:
  struct Buffers {
    const void* send = nullptr;
    void* recv = nullptr;
    uint64_t count = 0;
    DType dtype = DType::kUint8;
    uint64_t send_elements = 0, recv_elements = 0;  // 0 = the buffer is not used on this rank
  };
  struct Placed {
    InlineResult inline_result;
    std::array<StagedCopy, 2> staged{};
  };
  [[nodiscard]] shm::Request make_request(shm::Op op, const CollectiveOptions& options) const;
  [[nodiscard]] Result<Work> submit(shm::Request& request, const Buffers& buffers);
  [[nodiscard]] Result<Work> submit_pairwise(shm::Op op, const Buffers& buffers, uint32_t peer,
                                             const CollectiveOptions& options);
  [[nodiscard]] Result<void> check_open(const char* what) const;
  [[nodiscard]] Result<Placed> place(shm::Request& request, const Buffers& buffers);
  [[nodiscard]] Result<uint64_t> offset_of(const void* p, uint64_t bytes, bool copy_in,
                                           void* back_to, const char* what, StagedCopy& staged);
  [[nodiscard]] Result<void> set_layout(const Layout& layout, uint64_t* counts, uint64_t* displs,
                                        uint64_t& elements, const char* what) const;
  [[nodiscard]] Result<uint64_t> all_parts(uint64_t count, const char* what) const;
  [[nodiscard]] shm::Arrival arrival(shm::Op op) const noexcept;

  DeviceQueue& queue_;
  Membership membership_;
  std::atomic<bool> destroyed_{false}, suspended_{false};
};

}  // namespace npu::client
