// Inside of Network: memory that the walks share and the walks themselves, one source file each.
#pragma once

#include <vector>

#include "model/carver.hpp"
#include "model/graph.hpp"
#include "model/network.hpp"
#include "model/passes.hpp"

namespace npu::model {

/// Memory of a training step besides the tensors that the graph's layers and joints keep.
struct TrainMemory {
  std::byte* pool_workspace = nullptr;
  float* features = nullptr;  // [batch, features]
  float* feature_gradient = nullptr;
  float* logits = nullptr;  // [batch, classes]
  float* logit_gradient = nullptr;
  // Scratch of one chunk.
  float* input_chunk = nullptr;     // input of a convolution
  float* residual_chunk = nullptr;  // a joint that is not kept, while the next one is made from it
  float* shortcut_chunk = nullptr;  // what an option A shortcut adds
  float* dy_chunk = nullptr;   // gradient of a convolution's output; in forward the output itself
  float* dx_chunk = nullptr;   // gradient of a block's input through the main path
  float* dx2_chunk = nullptr;  // ... and through the projection
  // What convolutions with bf16 operands read in place of input_chunk and dy_chunk; else null.
  Stored input_operand;
  Stored dy_operand;
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
  float* weight_gradient = nullptr;    // of one chunk, or of the chunks so far
  float* side_weight_gradient = nullptr;  // a projection's, while the other one is in use
  float* patches = nullptr;               // gathered for a weight gradient
  float* partial = nullptr;               // sums of one block of rows a thread
  float* plain = nullptr;                 // one parameter in file order
  float* fc_weights = nullptr;            // rounded to the format, unless that is fp32
};

/// A chunk of a joint: as fp32 values, and as convolutions read it (often the same memory).
struct JointImages {
  const float* values = nullptr;
  const void* operand = nullptr;
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
  std::shared_ptr<Context> context;
  Profile* profile = nullptr;
  ParameterTable parameters;
  Passes passes;       // of training, in the format of the activations
  Passes fp32_passes;  // of evaluation
  BatchNormSync sync;
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
  [[nodiscard]] uint64_t place_tensors(std::byte* base);
  void carve_scratch(Carver& carver);
  void carve_eval(Carver& carver);
  [[nodiscard]] uint64_t carve_workspace(std::byte* base);
  [[nodiscard]] size_t max_bn_width();
  [[nodiscard]] int eval_batch() const noexcept;
  /// Calls that do not say their layer are this unit's from now on.
  void enter(const ConvBn& unit) const noexcept {
    if (profile != nullptr) [[unlikely]]
      profile->enter(&unit.bn);
  }
  [[nodiscard]] bool is_fp32() const noexcept { return passes.format() == Format::kFp32; }
  [[nodiscard]] bool has_bf16_operands() const noexcept {
    return graph.stem.train && graph.stem.train->operands() == Operands::kBf16;
  }

  // state (state.cpp)
  void make_state();
  void to_plain(size_t parameter, const float* flat, std::span<float> out);
  void from_plain(size_t parameter, std::span<const float> values, float* flat);
  void initialise(uint64_t seed);

  // joints.cpp
  void make_joint(size_t joint, int first, int count, Stored keep, float* out);
  void make_stem_output(int first, int count, Stored keep, float* out);
  [[nodiscard]] const float* first_joint_values(size_t joint, int first, int count, float* scratch);
  [[nodiscard]] const void* first_joint_operand(size_t joint, int first, int count);
  [[nodiscard]] const float* joint_values(size_t joint, int first, int count, float* scratch);
  [[nodiscard]] JointImages joint_images(size_t joint, int first, int count);
  [[nodiscard]] ResidualInput shortcut_of(size_t block, int first, int count);

  // forward.cpp
  [[nodiscard]] const float* eval_weights(ConvBn& unit);
  [[nodiscard]] const void* train_weights(ConvBn& unit, float* copy);
  [[nodiscard]] const void* image_operand(int first, int count);
  [[nodiscard]] const void* unit_operand(const ConvBn& before, int first, int count);
  void forward_walk();
  void forward_stem();
  void forward_block(size_t block);
  void forward_head();
  void forward_chunk(ConvBn& unit, int first, const void* src, const void* weights);
  void finish_unit(ConvBn& unit);

  // backward.cpp
  void backward_walk(const BucketReady& on_bucket_ready, float gradient_scale);
  void backward_head(float gradient_scale);
  void backward_block(size_t block);
  void backward_inner(Block& block, size_t unit, Stored gradient, bool masked, Stored out);
  void backward_first(size_t block, Stored inner);
  void backward_stem();
  void join_chunk(size_t joint, int first, int count, const float* z, const GradientInput& add);
  [[nodiscard]] const void* output_gradient(ConvBn& unit, int first, const GradientInput& gradient,
                                            bool masked);
  void weight_gradient_chunk(ConvBn& unit, int first, const void* src, const void* dy,
                             float* partial);
  [[nodiscard]] const void* backward_weights(ConvBn& unit, float* copy);
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
