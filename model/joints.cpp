// What is between two blocks, made where it is needed: for the first time in forward, and again in
// backward where it was not kept.
#include "model/network_impl.hpp"

namespace npu::model {

/// The stem's output, see make_joint. Pooling runs one image at a time: what is in front of it is
/// four times as large as behind it; with a half format it needs `out`.
void Network::Impl::make_stem_output(int first, int count, Stored keep, float* out) {
  ConvBn& stem = graph.stem;
  const Joint& joint = graph.joints.front();
  const size_t image = stem.out_image();
  const auto at = static_cast<size_t>(first);
  const auto n = static_cast<size_t>(count);
  if (!graph.pooled) {
    passes.normalise(stem.y.at(at * image), n * image, stem.bn, {}, keep, out);
    return;
  }
  NPU_CHECK(keep && (is_fp32() || out != nullptr));
  if (profile != nullptr) [[unlikely]]
    profile->enter(&graph.train_pool);
  float* pooled = is_fp32() ? keep.fp32() : out;
  for (size_t i = 0; i < n; ++i) {
    passes.normalise(stem.y.at((at + i) * image), image, stem.bn, {}, {}, train.dy_chunk);
    graph.train_pool->forward(train.dy_chunk, pooled + i * joint.image,
                              train.pool_workspace + (at + i) * graph.train_pool->workspace_bytes(),
                              work.scratch);
  }
  if (!is_fp32()) passes.narrow(pooled, keep, n * joint.image);
}

/// What block `index` adds to its last batch norm.
ResidualInput Network::Impl::shortcut_of(size_t index, int first, int count) {
  Block& block = graph.blocks[index];
  const auto at = static_cast<size_t>(first);
  if (block.projection) {
    return {.stored = block.projection->y.at(at * block.out_image()),
            .norm = &block.projection->bn};
  }
  const Joint& in = graph.joints[index];
  if (block.option_a) {
    const float* z = joint_values(index, first, count, train.residual_chunk);
    option_a_forward(*block.option_a, z, count, train.shortcut_chunk);
    return {.fp32 = train.shortcut_chunk};
  }
  if (in.kept) return {.stored = in.z.at(at * in.image)};
  return {.fp32 = joint_values(index, first, count, train.residual_chunk)};
}

/// Makes images [first, first + count) of a joint from what is in front of it: stored in `keep`, in
/// fp32 in `out`. Either may be null.
void Network::Impl::make_joint(size_t index, int first, int count, Stored keep, float* out) {
  if (index == 0) {
    make_stem_output(first, count, keep, out);
    return;
  }
  const ConvBn& last = graph.blocks[index - 1].last();
  const size_t image = graph.joints[index].image;
  passes.normalise(last.y.at(static_cast<size_t>(first) * image),
                   static_cast<size_t>(count) * image, last.bn,
                   shortcut_of(index - 1, first, count), keep, out);
}

/// The same for the first time, so a joint that is kept is stored. Returns fp32 values, in `scratch`
/// or in the joint's own memory.
const float* Network::Impl::first_joint_values(size_t index, int first, int count, float* scratch) {
  const Joint& joint = graph.joints[index];
  const Stored kept =
      joint.kept ? joint.z.at(static_cast<size_t>(first) * joint.image) : Stored{};
  const bool in_place = kept && is_fp32();
  make_joint(index, first, count, kept, in_place ? nullptr : scratch);
  return in_place ? kept.fp32() : scratch;
}

/// The same for the first time, returned as convolutions read it.
const void* Network::Impl::first_joint_operand(size_t index, int first, int count) {
  if (!has_bf16_operands()) return first_joint_values(index, first, count, train.input_chunk);
  const Joint& joint = graph.joints[index];
  const Stored out =
      joint.kept ? joint.z.at(static_cast<size_t>(first) * joint.image) : train.input_operand;
  const bool pools = index == 0 && graph.pooled;
  make_joint(index, first, count, out, pools ? train.input_chunk : nullptr);
  return out.data;
}

/// fp32 values once they were made, from memory where the joint is kept.
const float* Network::Impl::joint_values(size_t index, int first, int count, float* scratch) {
  const Joint& joint = graph.joints[index];
  if (!joint.kept) {
    make_joint(index, first, count, {}, scratch);
    return scratch;
  }
  const size_t at = static_cast<size_t>(first) * joint.image;
  if (is_fp32()) return joint.z.fp32() + at;
  passes.widen(joint.z.at(at), scratch, static_cast<size_t>(count) * joint.image);
  return scratch;
}

/// Both forms once they were made, in the input's scratch where they are not in memory.
JointImages Network::Impl::joint_images(size_t index, int first, int count) {
  const Joint& joint = graph.joints[index];
  if (has_bf16_operands() && !joint.kept) {
    make_joint(index, first, count, train.input_operand, train.input_chunk);
    return {train.input_chunk, train.input_operand.data};
  }
  const float* values = joint_values(index, first, count, train.input_chunk);
  if (!has_bf16_operands()) return {values, values};
  return {values, joint.z.at(static_cast<size_t>(first) * joint.image).data};
}

}  // namespace npu::model
