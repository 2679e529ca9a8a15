// The network as the trainer sees it: memory, steps, buckets, evaluation, state, errors.
#include "model/network.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "network_rig.hpp"

namespace npu::model {
namespace {

using test::random_values;
using test::Rig;
using test::same_bits;
using test::small_config;

size_t index_of(const Network& network, std::string_view name) {
  for (size_t i = 0; i < network.state().size(); ++i) {
    if (network.state()[i].name == name) return i;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(Network, TrainingLowersTheLoss) {
  Rig sut(small_config());
  const double first = sut.step();
  double last = first;
  for (int i = 0; i < 15; ++i) last = sut.step();
  EXPECT_LT(last, 0.5 * first);
}

TEST(Network, SameSeedAndInputGiveSameBits) {
  Rig a(small_config());
  Rig b(small_config());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(a.step(), b.step());
  }
  EXPECT_TRUE(same_bits(a.parameters(), b.parameters()));
  EXPECT_TRUE(same_bits(a.network->bn_buffers(), b.network->bn_buffers()));
}

TEST(Network, InstructionSetDoesNotChangeTheBits) {
  Rig fast(small_config());
  ASSERT_EQ(setenv("NPU_KERNELS", "plain", 1), 0);
  Rig plain(small_config());
  unsetenv("NPU_KERNELS");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fast.step(), plain.step());
  }
  EXPECT_TRUE(same_bits(fast.parameters(), plain.parameters()));
}

TEST(Network, TwoThreadsAgreeWithOneClosely) {
  NetworkConfig config = small_config();
  Rig one(config);
  config.threads = 2;
  Rig two(config);
  const double want = one.step();
  EXPECT_NEAR(two.step(), want, 1e-5 * want);
}

TEST(Network, BindTakesExactlyThePlannedBytes) {
  Rig sut(small_config());
  EXPECT_EQ(sut.heap.allocated_bytes(), sut.network->memory().total());
  EXPECT_EQ(sut.network->bind(sut.heap).error().code, Code::kFailedPrecondition);
}

TEST(Network, BucketsComeInOrderAndCompleteAndTheLastHoldsTheMetrics) {
  Rig sut(small_config());
  Network& net = *sut.network;
  ASSERT_GT(net.bucket_count(), 2U);
  ASSERT_TRUE(net.forward_train(sut.images, sut.labels));
  std::vector<std::vector<float>> seen;
  std::fill(net.metrics_slot().begin(), net.metrics_slot().end(), 3.0F);
  ASSERT_TRUE(net.backward([&](size_t i) {
    EXPECT_EQ(i, seen.size());
    seen.emplace_back(net.gradient_bucket(i).begin(), net.gradient_bucket(i).end());
  }));
  ASSERT_EQ(seen.size(), net.bucket_count());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(same_bits(seen[i], net.gradient_bucket(i)))
        << "written after it was announced: " << i;
    if (i + 1 < seen.size()) {
      EXPECT_EQ(net.gradient_bucket(i).data() + seen[i].size(), net.gradient_bucket(i + 1).data());
    }
  }
  const auto last = net.gradient_bucket(seen.size() - 1);
  EXPECT_EQ(net.metrics_slot().data(), last.data() + last.size() - 16);
  EXPECT_EQ(net.metrics_slot()[15], 3.0F);
}

TEST(Network, GradientScaleMultipliesEveryGradient) {
  Rig sut(small_config());
  const auto gradients = [&](float scale) {
    EXPECT_TRUE(sut.network->forward_train(sut.images, sut.labels));
    EXPECT_TRUE(sut.network->backward({}, scale));
    std::vector<float> all;
    for (size_t i = 0; i < sut.network->bucket_count(); ++i) {
      all.insert(all.end(), sut.network->gradient_bucket(i).begin(),
                 sut.network->gradient_bucket(i).end());
    }
    return all;
  };
  const std::vector<float> one = gradients(1);
  const std::vector<float> scaled = gradients(1024);
  for (size_t i = 0; i < one.size(); ++i) {
    ASSERT_NEAR(scaled[i], 1024 * one[i], 1e-2 + 1e-4 * std::abs(1024 * one[i])) << i;
  }
}

TEST(Network, DecayScopeLeavesBatchNormAlone) {
  Rig sut(small_config());
  const size_t bn = index_of(*sut.network, "bn1.weight");
  const size_t conv = index_of(*sut.network, "conv1.weight");
  std::vector<float> bn_before(16), bn_after(16), conv_before(432), conv_after(432);
  sut.network->export_state(bn, bn_before);
  sut.network->export_state(conv, conv_before);
  // Gradients are still zero: only the decay moves anything.
  for (size_t i = 0; i < sut.network->bucket_count(); ++i) {
    sut.network->sgd_step(i, {.weight_decay = 0.5F, .decay = DecayScope::kWeightsOnly});
  }
  sut.network->export_state(bn, bn_after);
  sut.network->export_state(conv, conv_after);
  EXPECT_EQ(bn_before, bn_after);
  for (size_t i = 0; i < conv_before.size(); ++i) {
    EXPECT_NEAR(conv_after[i], 0.95F * conv_before[i], 1e-6F);
  }
}

TEST(Network, EvaluationDoesNotDependOnTheBatch) {
  NetworkConfig config = small_config();
  config.eval_batch = 50;
  Rig sut(config);
  sut.step();
  const size_t image = 12 * 12 * 3;
  const std::vector<float> images = random_values(50 * image, 21);
  const auto all = sut.network->forward_eval(images, 50);
  ASSERT_TRUE(all);
  const std::vector<float> want(all->begin(), all->end());
  for (const size_t first : {size_t{0}, size_t{7}, size_t{49}}) {
    for (const size_t n : {size_t{1}, size_t{33}}) {
      if (first + n > 50) continue;
      const auto part = sut.network->forward_eval(
          std::span(images).subspan(first * image, n * image), static_cast<int>(n));
      ASSERT_TRUE(part);
      EXPECT_TRUE(same_bits(*part, std::span(want).subspan(first * 10, n * 10)))
          << first << " " << n;
    }
  }
}

TEST(Network, EvaluationCountsAddUpOverPartialBatches) {
  Rig sut(small_config());
  const auto whole = sut.network->forward_eval(sut.images, 6);
  const LossAndHits want = *sut.network->evaluate(*whole, sut.labels);
  LossAndHits got;
  const size_t image = 12 * 12 * 3;
  for (const auto& [first, n] : {std::pair<size_t, size_t>{0, 4}, {4, 2}}) {
    const auto logits = sut.network->forward_eval(
        std::span(sut.images).subspan(first * image, n * image), static_cast<int>(n));
    got += *sut.network->evaluate(*logits, std::span(sut.labels).subspan(first, n));
  }
  EXPECT_EQ(got.top1, want.top1);
  EXPECT_EQ(got.top5, want.top5);
  EXPECT_NEAR(got.loss_sum, want.loss_sum, 1e-12);
}

TEST(Network, StateRoundTripGivesTheSameRun) {
  Rig a(small_config(), 1);
  for (int i = 0; i < 3; ++i) a.step();
  Rig b(small_config(), 2);
  for (size_t i = 0; i < a.network->state().size(); ++i) {
    const StateEntry& entry = a.network->state()[i];
    if (entry.kind == StateKind::kBatchesTracked) {
      b.network->set_batches_tracked(i, a.network->batches_tracked(i));
      EXPECT_EQ(b.network->batches_tracked(i), 3);
      continue;
    }
    std::vector<float> values(entry.count);
    a.network->export_state(i, values);
    b.network->import_state(i, values);
    if (entry.kind == StateKind::kParameter) {
      a.network->export_momentum(i, values);
      b.network->import_momentum(i, values);
    }
  }
  EXPECT_TRUE(same_bits(a.parameters(), b.parameters()));
  EXPECT_TRUE(same_bits(a.network->momentum_flat(), b.network->momentum_flat()));
  EXPECT_EQ(a.step(), b.step());
  EXPECT_TRUE(same_bits(a.parameters(), b.parameters()));
}

TEST(Network, FlatCopyIsABroadcast) {
  Rig a(small_config(), 1);
  Rig b(small_config(), 2);
  ASSERT_EQ(a.network->layout_hash(), b.network->layout_hash());
  std::copy_n(a.network->parameters_flat().data(), a.network->parameters_flat().size(),
              b.network->parameters_flat().data());
  b.network->parameters_changed();
  EXPECT_EQ(a.step(), b.step());
}

TEST(Network, StateNamesFollowTorchvision) {
  const auto sut =
      Network::plan({.arch = "resnet50", .height = 32, .width = 32, .batch = 2, .training = false});
  ASSERT_TRUE(sut);
  const auto state = sut->state();
  EXPECT_EQ(state[0].name, "conv1.weight");
  EXPECT_EQ(state[0].shape, (std::vector<int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(state[5].name, "bn1.num_batches_tracked");
  EXPECT_EQ(state[6].name, "layer1.0.conv1.weight");
  EXPECT_EQ(state[24].name, "layer1.0.downsample.0.weight");
  EXPECT_EQ(state[25].name, "layer1.0.downsample.1.weight");
  EXPECT_EQ(state[state.size() - 1].name, "fc.bias");
}

TEST(Network, ZeroInitResidualStartsBlocksAsIdentity) {
  NetworkConfig config = small_config();
  config.zero_init_residual = true;
  Rig sut(config);
  std::vector<float> values(16);
  sut.network->export_state(index_of(*sut.network, "layer1.0.bn2.weight"), values);
  EXPECT_EQ(values, std::vector<float>(16, 0.0F));
  sut.network->export_state(index_of(*sut.network, "layer1.0.bn1.weight"), values);
  EXPECT_EQ(values, std::vector<float>(16, 1.0F));
  EXPECT_TRUE(std::isfinite(sut.step()));
}

TEST(Network, ZeroInitResidualIsTheThirdNormOfABottleneck) {
  NetworkConfig config = small_config();
  config.arch = "resnet50-32";
  config.zero_init_residual = true;
  Rig sut(config);
  std::vector<float> last(256);
  sut.network->export_state(index_of(*sut.network, "layer1.0.bn3.weight"), last);
  EXPECT_EQ(last, std::vector<float>(256, 0.0F));
  std::vector<float> other(64);
  sut.network->export_state(index_of(*sut.network, "layer1.0.bn2.weight"), other);
  EXPECT_EQ(other, std::vector<float>(64, 1.0F));
  sut.network->export_state(index_of(*sut.network, "layer1.0.downsample.1.weight"), last);
  EXPECT_EQ(last, std::vector<float>(256, 1.0F));
}

TEST(Network, PaddingOfTheFlatOrderStaysZero) {
  Rig sut(small_config());
  for (int i = 0; i < 3; ++i) sut.step();
  double plain = 0;
  for (size_t i = 0; i < sut.network->state().size(); ++i) {
    const StateEntry& entry = sut.network->state()[i];
    if (entry.kind != StateKind::kParameter) continue;
    std::vector<float> values(entry.count);
    sut.network->export_state(i, values);
    for (const float v : values) plain += std::abs(static_cast<double>(v));
  }
  double flat = 0;
  for (const float v : sut.network->parameters_flat()) flat += std::abs(static_cast<double>(v));
  EXPECT_NEAR(flat, plain, 1e-9 * plain);
}

TEST(Network, OutOfOrderCallsAreRefused) {
  Rig sut(small_config());
  EXPECT_EQ(sut.network->backward({}).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(sut.network->forward_train(sut.images, sut.labels));
  ASSERT_TRUE(sut.network->forward_eval(sut.images, 6));
  EXPECT_EQ(sut.network->backward({}).error().code, Code::kFailedPrecondition);
}

TEST(Network, BadInputIsRefused) {
  Rig sut(small_config());
  EXPECT_EQ(sut.network->forward_train(std::span(sut.images).first(5), sut.labels).error().code,
            Code::kInvalidArgument);
  sut.labels[3] = 10;
  EXPECT_EQ(sut.network->forward_train(sut.images, sut.labels).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(sut.network->backward({}).error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(sut.network->forward_eval(sut.images, 7));
  EXPECT_FALSE(sut.network->forward_eval({}, 0));
}

TEST(NetworkPlan, BadConfigurationIsNamed) {
  const auto code_of = [](auto change) {
    NetworkConfig config = small_config();
    change(config);
    const auto result = Network::plan(config);
    return result ? Code::kInternal : result.error().code;
  };
  EXPECT_EQ(code_of([](auto& c) { c.arch = "resnet19"; }), Code::kNotFound);
  EXPECT_EQ(code_of([](auto& c) { c.channels = 4; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& c) { c.batch = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& c) { c.height = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& c) { c.threads = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](auto& c) { c.dtype = DType::kInt8; }), Code::kInvalidArgument);
}

TEST(NetworkPlan, OneValuePerChannelIsRefusedInTrainingOnly) {
  NetworkConfig config{
      .arch = "resnet18", .num_classes = 10, .height = 32, .width = 32, .batch = 1};
  const auto result = Network::plan(config);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("layer4.0.bn1"), std::string::npos)
      << result.error().message;
  config.training = false;
  EXPECT_TRUE(Network::plan(config));
  config.training = true;
  config.height = config.width = 64;  // a 2x2 map is enough
  EXPECT_TRUE(Network::plan(config));
}

TEST(Network, EvaluationOnlyNetworkHasNoTrainingMemory) {
  NetworkConfig config = small_config();
  config.training = false;
  Rig sut(config);
  EXPECT_EQ(sut.network->memory().gradients, 0U);
  EXPECT_EQ(sut.network->memory().momentum, 0U);
  EXPECT_EQ(sut.network->bucket_count(), 0U);
  EXPECT_EQ(sut.network->forward_train(sut.images, sut.labels).error().code,
            Code::kFailedPrecondition);
  EXPECT_TRUE(sut.network->forward_eval(sut.images, 6));
}

class RefusingAllocator final : public Allocator {
 public:
  Result<std::byte*> allocate(uint64_t bytes, uint64_t, Purpose purpose) override {
    return fail(Code::kResourceExhausted, "allocate {} bytes for {}", bytes, purpose_name(purpose));
  }
};

TEST(Network, AllocatorsErrorComesThrough) {
  auto sut = Network::plan(small_config());
  ASSERT_TRUE(sut);
  RefusingAllocator full;
  EXPECT_EQ(sut->bind(full).error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace npu::model
