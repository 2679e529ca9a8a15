// Inside of Network: memory that the walks share and the walks themselves, one source file each.
#pragma once

#include <vector>

#include "model/carver.hpp"
#include "model/graph.hpp"
#include "model/network.hpp"
#include "model/passes.hpp"

namespace npu::model {

/// Memory of a training step besides the tensors that the graph's layers keep.
struct TrainMemory {
  float* pooled = nullptr;  // [batch] input of the first block, ImageNet stem
  std::byte* pool_workspace = nullptr;
  float* stem_z = nullptr;    // [batch] input of the first block, CIFAR stem
  float* features = nullptr;  // [batch, features]
  float* feature_gradient = nullptr;
  float* logits = nullptr;  // [batch, classes]
  float* logit_gradient = nullptr;
  float* block_gradient[2] =
      {};  // masked gradient of a block's output, ping-pong where the shape changes
  float* inner_gradient[2] = {};  // gradients inside a block, ping-pong
  float* input_chunk = nullptr;   // recomputed input of a convolution, or a shortcut
  float* dy_chunk = nullptr;      // gradient of a convolution's output
  float* dx_chunk = nullptr;      // gradient of a block's input through the main path
  float* dx2_chunk = nullptr;     // ... and through the projection
};

/// Memory of evaluation, one chunk of images through all layers; shares bytes with TrainMemory.
struct EvalMemory {
  float* images = nullptr;  // a last chunk that is not full, padded
  float* map[4] = {};
  float* features = nullptr;
  float* logits = nullptr;  // [eval_batch rounded up, classes]
};

struct WorkMemory {
  std::byte* scratch = nullptr;        // oneDNN's
  float* weights_copy = nullptr;       // one layer's weights in another layout
  float* side_weights_copy = nullptr;  // a projection's, while weights_copy holds the main path's
  float* weight_gradient = nullptr;    // of one chunk
  float* partial = nullptr;            // sums of one block of rows a thread
  float* plain = nullptr;              // one parameter in file order
};

struct StateRef {
  size_t parameter = 0;    // kParameter
  ConvBn* unit = nullptr;  // kBuffer, kBatchesTracked
  bool variance = false;
};

struct Network::Impl {
  Impl(const NetworkConfig& wanted, Graph built);

  NetworkConfig config;
  Graph graph;
  ParameterTable parameters;
  Passes passes;
  MemoryPlan plan;
  std::vector<StateEntry> entries;
  std::vector<StateRef> entry_refs;
  bool bound = false;
  bool step_pending = false;      // forward_train done, backward not yet
  const float* images = nullptr;  // of the pending step

  float* parameter_memory = nullptr;
  float* gradient_memory = nullptr;
  float* momentum_memory = nullptr;
  float* buffer_memory = nullptr;
  TrainMemory train;
  EvalMemory eval;
  WorkMemory work;

  // plan and bind (bind.cpp)
  void make_plan();
  [[nodiscard]] Result<void> bind(Allocator& allocator);
  void attach_layers();
  [[nodiscard]] uint64_t carve_activations(std::byte* base);
  void carve_train(Carver& carver);
  void carve_eval(Carver& carver);
  [[nodiscard]] uint64_t carve_workspace(std::byte* base);
  [[nodiscard]] size_t max_bn_width();
  [[nodiscard]] int eval_batch() const noexcept;

  // state (state.cpp)
  void make_state();
  void to_plain(size_t parameter, const float* flat, std::span<float> out);
  void from_plain(size_t parameter, std::span<const float> values, float* flat);
  void initialise(uint64_t seed);

  // forward.cpp
  [[nodiscard]] const float* block_input(size_t block) const noexcept;
  [[nodiscard]] const float* forward_weights(ConvBn& unit, Convolution& conv);
  void forward_walk();
  void forward_chunk(ConvBn& unit, int first, const float* src);
  void finish_unit(ConvBn& unit);
  void make_block_input(size_t block, int first, int count);
  void make_stem_output(int first, int count);
  void make_block_output(size_t block, int first, int count);

  // backward.cpp
  void backward_walk(const BucketReady& on_bucket_ready, float gradient_scale);
  void backward_head(float gradient_scale);
  void backward_block(size_t block, float* gradient, float* input_gradient);
  void backward_inner(Block& block, size_t unit, const float* gradient, bool masked, float* out);
  void backward_first(size_t block, const float* inner, const float* gradient,
                      float* input_gradient);
  void backward_stem(const float* gradient);
  void join_chunk(size_t block, int first, int count, const float* add, float* out);
  void weight_gradient_chunk(ConvBn& unit, int first, const float* src, const float* dy);
  [[nodiscard]] const float* backward_weights(ConvBn& unit, float* copy);
  void completed(size_t parameter);
  void completed_bn(ConvBn& unit);
  uint64_t completed_floats = 0;
  size_t announced = 0;
  const BucketReady* listener = nullptr;

  // evaluate.cpp
  void eval_chunk(const float* source, float* out_logits);
  [[nodiscard]] Result<std::span<const float>> evaluate_batch(std::span<const float> source, int n);
};

}  // namespace npu::model
