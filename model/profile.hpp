// Where the time of a step goes, a row for each layer and kind of kernel. Off it costs one branch a
// kernel call; on it takes two readings of the clock a call and memory for new rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace npu::model {

enum class KernelKind : uint8_t {
  kConvForward,
  kConvBackwardData,
  kConvBackwardWeights,
  kReorder,     // of weights
  kMoments,     // batch-norm statistics, with the rounding of what is kept
  kNormalise,   // batch norm, shortcut and ReLU forward
  kBnBackward,  // gradient of a convolution's output
  kJoin,        // gradients of both ways into a block, ReLU mask, batch-norm sums
  kReduce,      // ReLU mask and batch-norm sums inside a block
  kAdd,         // weight gradient of a chunk to that of the batch
  kConvert,     // between fp32 and the format of activations
  kPool,
  kFc,
  kLoss,
  kSgd,
  kOther,  // between the kernels
};
inline constexpr size_t kKernelKinds = 16;

/// "conv fwd", "conv bwd data", ...
[[nodiscard]] std::string_view kernel_kind_name(KernelKind kind) noexcept;

/// What one call does. Bytes are those that it reads and writes, in cache or not.
struct KernelWork {
  KernelKind kind = KernelKind::kConvForward;
  uint64_t flops = 0;  // 2 a multiply-add; 0 for passes
  uint64_t bytes = 0;
};

struct ProfileRow {
  std::string layer;
  KernelKind kind = KernelKind::kConvForward;
  uint64_t calls = 0;
  double seconds = 0;
  uint64_t flops = 0;
  uint64_t bytes = 0;
};

/// Collects rows. Layers are told apart by the address of a key: a layer's batch norm, or its name.
/// Thread: the one that runs the network.
class Profile {
 public:
  enum class Clock : uint8_t {
    kWall,
    kThread,  // processor time of the calling thread: right for one thread, blind to other load
  };
  explicit Profile(Clock clock) noexcept : clock_(clock) {}

  /// What rows of `key` are called.
  void name(const void* key, std::string layer);
  /// The layer of calls that do not say theirs, until the next call.
  void enter(const void* key) noexcept { current_ = key; }

  [[nodiscard]] int64_t now_ns() const noexcept;
  void add(const void* key, const KernelWork& work, int64_t ns);
  void add(const KernelWork& work, int64_t ns) { add(current_, work, ns); }

  /// In the order in which they first ran.
  [[nodiscard]] const std::vector<ProfileRow>& rows() const noexcept { return rows_; }
  /// Forgets the calls so far, not the names.
  void clear();

 private:
  Clock clock_;
  const void* current_ = nullptr;
  std::unordered_map<const void*, std::string> names_;
  std::unordered_map<const void*, std::vector<size_t>> rows_of_;  // by kind; 0 = none, else row + 1
  std::vector<ProfileRow> rows_;
};

/// Times its own life as one call; does nothing with a null profile.
class Timed {
 public:
  Timed(Profile* profile, const void* key, const KernelWork& work) noexcept : profile_(profile) {
    if (profile == nullptr) [[likely]]
      return;
    key_ = key;
    work_ = work;
    begin_ns_ = profile->now_ns();
  }
  ~Timed() {
    if (profile_ == nullptr) [[likely]]
      return;
    finish();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  void finish();

  Profile* profile_;
  const void* key_ = nullptr;  // null: the profile's current layer
  KernelWork work_;
  int64_t begin_ns_ = 0;
};

}  // namespace npu::model
