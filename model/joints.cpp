// What is between two blocks, made where it is needed: for the first time in forward, and again in
// backward where it was not kept.
#include "model/network_impl.hpp"

namespace npu::model {

/// The stem's output. Pooling runs one image at a time: what is in front of it is four times as
/// large as behind it.
const float* Network::Impl::make_stem_output(int first, int count, float* scratch, bool keep) {
  ConvBn& stem = graph.stem;
  Joint& joint = graph.joints.front();
  const size_t image = stem.out_image();
  const auto at = static_cast<size_t>(first);
  const auto n = static_cast<size_t>(count);
  if (!graph.pooled) {
    passes.normalise(stem.y.at(at * image), n * image, stem.bn, {}, {}, scratch);
    return scratch;
  }
  NPU_CHECK(keep && joint.kept);
  if (profile != nullptr) [[unlikely]]
    profile->enter(&graph.train_pool);
  float* out = is_fp32() ? joint.z.fp32() + at * joint.image : scratch;
  for (size_t i = 0; i < n; ++i) {
    passes.normalise(stem.y.at((at + i) * image), image, stem.bn, {}, {}, train.dy_chunk);
    graph.train_pool->forward(train.dy_chunk, out + i * joint.image,
                              train.pool_workspace + (at + i) * graph.train_pool->workspace_bytes(),
                              work.scratch);
  }
  if (!is_fp32()) passes.narrow(out, joint.z.at(at * joint.image), n * joint.image);
  return out;
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
    const float* z = joint_input(index, first, count, train.residual_chunk);
    option_a_forward(*block.option_a, z, count, train.shortcut_chunk);
    return {.fp32 = train.shortcut_chunk};
  }
  if (in.kept) return {.stored = in.z.at(at * in.image)};
  return {.fp32 = joint_input(index, first, count, train.residual_chunk)};
}

/// Makes images [first, first + count) of a joint from what is in front of it and returns them in
/// fp32: in `scratch`, or in the joint's own memory. `keep`: stores them if the joint is kept.
const float* Network::Impl::make_joint(size_t index, int first, int count, float* scratch,
                                       bool keep) {
  if (index == 0) return make_stem_output(first, count, scratch, keep);
  Joint& joint = graph.joints[index];
  const ConvBn& last = graph.blocks[index - 1].last();
  const size_t at = static_cast<size_t>(first) * joint.image;
  const size_t size = static_cast<size_t>(count) * joint.image;
  const Stored kept = keep && joint.kept ? joint.z.at(at) : Stored{};
  float* out = kept && is_fp32() ? nullptr : scratch;
  passes.normalise(last.y.at(at), size, last.bn, shortcut_of(index - 1, first, count), kept, out);
  return out == nullptr ? kept.fp32() : out;
}

/// The same images once they were made, from memory where the joint is kept.
const float* Network::Impl::joint_input(size_t index, int first, int count, float* scratch) {
  const Joint& joint = graph.joints[index];
  if (!joint.kept) return make_joint(index, first, count, scratch, false);
  const size_t at = static_cast<size_t>(first) * joint.image;
  if (is_fp32()) return joint.z.fp32() + at;
  passes.widen(joint.z.at(at), scratch, static_cast<size_t>(count) * joint.image);
  return scratch;
}

}  // namespace npu::model
