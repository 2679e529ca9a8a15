// The layers of one network with their shapes, primitives and memory: what the forward and backward
// walks run on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/arch.hpp"
#include "model/batch_norm.hpp"
#include "model/network.hpp"
#include "model/parameters.hpp"
#include "model/primitives/convolution.hpp"
#include "model/primitives/linear.hpp"
#include "model/primitives/max_pool.hpp"
#include "model/shortcut.hpp"
#include "model/storage.hpp"

namespace npu::model {

/// A convolution and the batch norm behind it. In training, y (the convolution's output) is all
/// that is kept of the pair; relu(bn(y)) is recomputed chunk by chunk wherever it is needed.
struct ConvBn {
  std::string conv_name;  // "layer1.0.conv1"
  std::string bn_name;
  ConvShape shape;  // batch = images of one training chunk
  size_t weight_index = 0;
  size_t bn_weight_index = 0;
  size_t bn_bias_index = 0;
  uint64_t buffer_offset = 0;  // of the running mean in bn_buffers; the variance follows it
  int64_t batches_tracked = 0;
  std::shared_ptr<Convolution> train;
  std::shared_ptr<Convolution> eval;
  bool forward_stale = true;  // forward_weights does not hold the current parameters

  float* weights = nullptr;
  float* weight_gradient = nullptr;
  float* forward_weights = nullptr;  // only where the forward kernel wants its own layout
  Stored y;                          // the whole batch
  BatchNorm bn;

  [[nodiscard]] size_t in_image() const noexcept {
    return static_cast<size_t>(shape.in_h) * static_cast<size_t>(shape.in_w) *
           static_cast<size_t>(shape.in_c);
  }
  [[nodiscard]] size_t out_pixels() const noexcept {
    return static_cast<size_t>(shape.out_h()) * static_cast<size_t>(shape.out_w());
  }
  [[nodiscard]] size_t out_image() const noexcept {
    return out_pixels() * static_cast<size_t>(shape.out_c);
  }
};

/// A residual block: two or three ConvBn in a row, and the way its input reaches its output.
struct Block {
  std::string name;  // "layer1.0"
  std::vector<ConvBn> units;
  std::optional<ConvBn> projection;
  std::optional<OptionA> option_a;
  Stored inner_gradient[2];  // whole batch, ping-pong between the units

  [[nodiscard]] const ConvBn& last() const noexcept { return units.back(); }
  [[nodiscard]] ConvBn& last() noexcept { return units.back(); }
  [[nodiscard]] size_t in_image() const noexcept { return units.front().in_image(); }
  [[nodiscard]] size_t out_image() const noexcept { return units.back().out_image(); }
  [[nodiscard]] bool is_identity() const noexcept { return !projection && !option_a; }
};

/// What is between two blocks: joint 0 is the input of block 0, joint b + 1 the output of block b.
/// Every second one is kept; the others are made again, chunk by chunk, from y and the joint
/// before: what that reads is read for the batch norm's gradient anyway.
struct Joint {
  size_t image = 0;  // elements
  bool kept = true;
  Stored z;         // whole batch, when kept
  Stored gradient;  // whole batch; an identity block updates its output's in place
};

/// Everything that the configuration decides, before any tensor exists.
struct Graph {
  Arch arch;
  ConvBn stem;
  bool pooled = false;  // ImageNet stem: max pooling between the stem and the first block
  int pool_h = 0;
  int pool_w = 0;
  std::vector<Block> blocks;
  std::vector<Joint> joints;  // one more than blocks
  int features = 0;
  size_t feature_pixels = 0;  // of the map that is averaged
  size_t fc_weight_index = 0;
  size_t fc_bias_index = 0;
  int eval_chunk = 1;
  uint64_t buffer_floats = 0;
  std::shared_ptr<MaxPool> train_pool;
  std::shared_ptr<MaxPool> eval_pool;
  std::shared_ptr<Linear> train_fc;
  std::shared_ptr<Linear> eval_fc;

  /// Floats of one image as the first block reads it.
  [[nodiscard]] size_t first_input_image() const noexcept { return blocks.front().in_image(); }
  [[nodiscard]] size_t stem_image() const noexcept { return stem.out_image(); }

  template <typename Visitor>
  void each_unit(const Visitor& visit) {
    visit(stem);
    for (Block& block : blocks) {
      for (ConvBn& unit : block.units) {
        visit(unit);
      }
      if (block.projection) visit(*block.projection);
    }
  }
};

/// Shapes, names, chunk sizes. Errors: not_found, invalid_argument.
[[nodiscard]] Result<Graph> build_graph(const NetworkConfig& config);

/// Creates the primitives; equal shapes share one. Errors: internal (oneDNN).
[[nodiscard]] Result<void> build_primitives(Graph& graph, const NetworkConfig& config,
                                            const std::shared_ptr<Context>& context);

/// Parameters in state-dict order (fills the indices of the graph) and their flat order.
[[nodiscard]] ParameterTable build_parameters(Graph& graph, const NetworkConfig& config);

}  // namespace npu::model
