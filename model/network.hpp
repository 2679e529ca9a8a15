// A ResNet that trains: plan its memory, bind it once, then step. One process, one rank, NHWC; it
// knows nothing of ranks, files or shared memory: gradients leave through buckets that the caller
// reduces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/allocator.hpp"
#include "model/arch.hpp"
#include "model/batch_norm_sync.hpp"
#include "model/init.hpp"
#include "model/loss.hpp"
#include "model/sgd.hpp"
#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"

namespace npu::model {

struct NetworkConfig {
  std::string arch = "resnet18";
  int num_classes = 1000;
  int channels = 3;  // of the images: 1 or 3
  int height = 224;
  int width = 224;
  int batch = 32;                   // samples of one training step of this rank, fixed
  int eval_batch = 0;               // most samples of one forward_eval; 0 = batch
  bool training = true;             // false: neither gradients nor momentum nor saved activations
  bool zero_init_residual = false;  // last BN weight of each block starts at 0
  float label_smoothing = 0;        // training loss only
  /// Of stored activations and of what convolutions and the classifier read: fp32, fp16 or bf16.
  /// Accumulation, statistics, master weights, weight gradients, loss and evaluation are fp32.
  DType dtype = DType::kFloat32;
  int threads = 1;                                  // compute threads
  uint64_t bucket_bytes = uint64_t{4} << 20;        // gradient bucket target; 0 = one bucket
  uint64_t first_bucket_bytes = uint64_t{1} << 20;  // of bucket 0, so that the overlap starts early
  InitForm init = InitForm::kPytorch;               // distributions of fresh parameters
};

/// Bytes that `bind` will ask for, alignment included.
struct MemoryPlan {
  uint64_t parameters = 0;
  uint64_t gradients = 0;
  uint64_t momentum = 0;
  uint64_t bn_buffers = 0;
  uint64_t activations = 0;
  uint64_t workspace = 0;

  [[nodiscard]] uint64_t total() const noexcept {
    return parameters + gradients + momentum + bn_buffers + activations + workspace;
  }
};

enum class StateKind : uint8_t { kParameter, kBuffer, kBatchesTracked };

/// One entry of the state dict. `count` is 1 and `shape` empty for num_batches_tracked (int64).
struct StateEntry {
  std::string name;            // torchvision's
  std::vector<int64_t> shape;  // OIHW, [out, in] or [channels]
  StateKind kind = StateKind::kParameter;
  uint64_t count = 0;  // elements
};

struct NonFiniteGradient {
  std::string_view name;  // in the state dict
  bool nan = false;       // its first bad element is NaN, else an infinity
};

/// Called as soon as gradient bucket `i` is complete; buckets come in ascending order.
using BucketReady = std::function<void(size_t bucket)>;

class Profile;
class StateExporter;

/// The network. Invariants: (1) no tensor memory is taken after bind (oneDNN makes small
/// bookkeeping allocations in each execution); (2) parameters, gradients and momentum share one
/// flat element order, the order in which backward completes gradients (reverse layer order), in
/// the layout that oneDNN computes with, its padding always zero; (3) same state, same input and
/// same thread count give the same bits. Thread: one call at a time; calls set the caller's OpenMP
/// thread count. Movable, not copyable.
class Network {
 public:
  /// Checks the configuration, lays out memory and builds the primitives; allocates no tensor.
  /// Errors: not_found (arch: lists the known ones), invalid_argument (names field and value).
  /// Cost: milliseconds to about a second (JIT of a deep network).
  [[nodiscard]] static Result<Network> plan(const NetworkConfig& config);

  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  [[nodiscard]] const NetworkConfig& config() const noexcept;
  [[nodiscard]] const MemoryPlan& memory() const noexcept;

  /// Takes the planned memory, once. The allocator's memory must outlive the network.
  /// Errors: the allocator's; failed_precondition (bound already).
  [[nodiscard]] Result<void> bind(Allocator& allocator);

  /// Fresh parameters, BN buffers and momentum; parameter i draws from a generator keyed by (seed,
  /// i), from the distributions that config.init names.
  void initialise(uint64_t seed);

  // --- one training step: forward_train, backward, (reduce the buckets), sgd_step each bucket ---

  /// Forward in training mode: batch statistics, running statistics updated, activations kept.
  /// Shapes: images NHWC [batch, height, width, channels]; labels [batch]. Both must stay until
  /// backward ends. Errors: invalid_argument (sizes, a label out of range); failed_precondition
  /// (planned without training).
  [[nodiscard]] Result<LossAndHits> forward_train(std::span<const float> images,
                                                  std::span<const int32_t> labels);

  /// Gradients of gradient_scale * (mean loss) of the last forward_train into the buckets,
  /// overwriting them. `on_bucket_ready` may be empty. The metrics slot is not touched.
  /// gradient_scale carries a loss scale, or batch/global_batch for a sum over ranks. Errors:
  /// failed_precondition (no forward_train since the last backward or forward_eval).
  [[nodiscard]] Result<void> backward(const BucketReady& on_bucket_ready, float gradient_scale = 1);

  /// From now on batch norm trains on statistics over all ranks: `sync.sum` is called from
  /// forward_train once a layer, and from backward once a layer.
  void sync_batch_norm(BatchNormSync sync);
  /// Doubles that sync.staging needs.
  [[nodiscard]] size_t sync_staging() const noexcept;

  [[nodiscard]] size_t bucket_count() const noexcept;

  /// Fp32 gradients of bucket i, 64-byte aligned, contiguous with the neighbours (bucket 0 first).
  /// The last one ends with the metrics slot.
  [[nodiscard]] std::span<float> gradient_bucket(size_t i) noexcept;

  /// 16 floats at the end of the last bucket, the caller's: written before the last bucket is
  /// submitted (in its on_bucket_ready at the latest), reduced along with the gradients.
  [[nodiscard]] std::span<float> metrics_slot() noexcept;

  /// Adds the squares of bucket i's gradients to `sum`, in double, a parameter after the other in
  /// the flat order: after all buckets the bits depend neither on their sizes nor on threads.
  /// Padding and the metrics slot do not count.
  void add_gradient_squares(size_t i, double& sum) const noexcept;

  /// The first parameter, in the order in which backward completes them, whose gradient is not
  /// finite: what went wrong there spreads to all that follow. Empty name: all are finite.
  [[nodiscard]] NonFiniteGradient first_non_finite_gradient() const noexcept;

  /// Updates the parameters of bucket i from its gradients. `params` must have passed check_sgd.
  void sgd_step(size_t i, const SgdParams& params) noexcept;

  // --- evaluation ---

  /// Logits [n, num_classes] in evaluation mode, n = labels to come, 0 < n <= eval_batch; valid
  /// until the next call. A sample's logits do not depend on n nor on its neighbours. Ends a
  /// pending training step. Errors: invalid_argument (n, size of images).
  [[nodiscard]] Result<std::span<const float>> forward_eval(std::span<const float> images, int n);

  /// Loss (without label smoothing) and hits of such logits. Errors: invalid_argument (a label, a
  /// size).
  [[nodiscard]] Result<LossAndHits> evaluate(std::span<const float> logits,
                                             std::span<const int32_t> labels) const;

  /// Times every kernel of the steps from now on into `profile`, which names the layers; null ends
  /// it.
  void set_profile(Profile* profile);

  // --- state ---

  /// Entries in torchvision's state_dict order.
  [[nodiscard]] std::span<const StateEntry> state() const noexcept;

  /// Plain fp32 copy of entry i (parameter or buffer). `out` has exactly `count` elements.
  void export_state(size_t i, std::span<float> out) const;
  void import_state(size_t i, std::span<const float> values);

  /// Momentum of parameter entry i, same shape. Needs a network planned with training.
  void export_momentum(size_t i, std::span<float> out) const;
  void import_momentum(size_t i, std::span<const float> values);

  /// Gradient of parameter entry i as the buckets hold it, same shape: for tests and to name a bad
  /// tensor.
  void export_gradient(size_t i, std::span<float> out) const;

  /// Counter of a num_batches_tracked entry.
  [[nodiscard]] int64_t batches_tracked(size_t i) const;
  void set_batches_tracked(size_t i, int64_t value);

  /// Flat views for broadcasts: same binary, same configuration and same CPU features give the same
  /// layout on every rank. Whoever writes through them calls parameters_changed afterwards.
  [[nodiscard]] std::span<float> parameters_flat() noexcept;
  [[nodiscard]] std::span<float> momentum_flat() noexcept;

  /// All running means and variances, contiguous.
  [[nodiscard]] std::span<float> bn_buffers() noexcept;

  /// Tells that parameters_flat was written from outside.
  void parameters_changed() noexcept;

  /// Hash of everything that decides the flat layout; ranks may compare it before they broadcast.
  [[nodiscard]] uint64_t layout_hash() const noexcept;

  /// Trainable elements, padding not counted.
  [[nodiscard]] uint64_t parameter_count() const noexcept;

 private:
  friend class StateExporter;
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::model
