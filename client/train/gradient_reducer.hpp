// The all-reduces of one step's gradients, fp32 in place or fp16 through a staging area.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/api/communicator.hpp"
#include "model/kernels/kernels.hpp"
#include "model/network.hpp"

namespace npu::client {

/// Elements that the staging of an fp16 wire takes: one half a gradient.
[[nodiscard]] uint64_t wire_elements(model::Network& network);

/// With a staging area, a bucket is rounded to fp16, reduced as fp16 (accumulated in fp32, divided
/// before the one rounding) and widened back into its place; the metrics slot then travels by
/// itself, as fp32. Thread: one. Nothing here allocates after construction, but errors.
class GradientReducer {
 public:
  /// `wire` lies in the arena and has wire_elements(network) elements, or none for fp32.
  GradientReducer(model::Network& network, Communicator& world, const CollectiveOptions& options,
                  ReduceOp op, std::span<uint16_t> wire);

  void begin_pass() noexcept { error_.reset(); }
  /// Starts bucket i's all-reduce; an error is kept for check().
  void submit(size_t bucket);
  /// The first error of submit().
  [[nodiscard]] Result<void> check() const;
  /// Bucket i holds the reduced gradients, the last one the reduced metrics too. True if all inputs
  /// and results were finite: the same answer on every rank.
  [[nodiscard]] Result<bool> wait(size_t bucket);

 private:
  [[nodiscard]] std::span<float> gradients(size_t bucket);
  [[nodiscard]] uint16_t* staged(std::span<const float> gradients);
  void keep(Result<Work> work, Work& at);

  model::Network& network_;
  Communicator& world_;
  CollectiveOptions options_;
  ReduceOp op_;
  std::span<uint16_t> wire_;
  const model::Kernels& convert_;
  std::vector<Work> works_;
  Work metrics_;
  std::optional<Error> error_;
};

}  // namespace npu::client
