// Exported weights are PyTorch's: load_state_dict(strict=True) into a resnet of the same definition
// takes them, and both networks give the same logits on 100 images.
#include <gmock/gmock.h>

#include <cmath>

#include "model/network.hpp"
#include "shm/format/safetensors.hpp"
#include "torch_fixture.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;

constexpr int kImages = 100;

struct Case {
  const char* arch;
  int size;
  int channels;
  std::vector<std::string> sets;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.arch; }

class ExportTest : public TorchTest, public testing::WithParamInterface<Case> {
 protected:
  /// Every entry of the state dict from the file; a missing or odd one fails the test.
  static void load(model::Network& network, const std::string& path) {
    auto opened = SafetensorsFile::open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto state = network.state();
    EXPECT_EQ(opened->tensors().size(), state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      const auto* entry = opened->find(state[i].name);
      ASSERT_NE(entry, nullptr) << state[i].name;
      if (state[i].kind == model::StateKind::kBatchesTracked) continue;
      std::vector<float> values(state[i].count);
      ASSERT_TRUE(opened->read_tensor(*entry, std::as_writable_bytes(std::span(values))))
          << state[i].name;
      network.import_state(i, values);
    }
  }

  /// Our logits on the formula's images, written as raw fp32.
  static void write_logits(const std::string& weights, const std::string& path) {
    const Case& c = GetParam();
    auto network = model::Network::plan({.arch = c.arch,
                                         .num_classes = 10,
                                         .channels = c.channels,
                                         .height = c.size,
                                         .width = c.size,
                                         .batch = kImages,
                                         .training = false});
    ASSERT_TRUE(network) << network.error().message;
    model::HeapAllocator heap;
    ASSERT_TRUE(network->bind(heap));
    load(*network, weights);
    const auto images = formula_images(static_cast<size_t>(kImages * c.size * c.size * c.channels));
    const auto logits = network->forward_eval(images, kImages);
    ASSERT_TRUE(logits) << logits.error().message;
    const auto bytes = std::as_bytes(*logits);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
};

TEST_P(ExportTest, TorchLoadsTheExportAndGivesTheSameLogits) {
  const Case& c = GetParam();
  std::vector<std::string> sets = {std::string("model.arch=") + c.arch,
                                   "data.image_size=" + std::to_string(c.size),
                                   "data.channels=" + std::to_string(c.channels)};
  sets.insert(sets.end(), c.sets.begin(), c.sets.end());
  const Outcome trained = launch(sets);
  ASSERT_EQ(trained.code, 0) << trained.err;

  const Outcome list = npu({"ckpt", "ls", "tiny", "-o", "json"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("\"latest\":true"));
  EXPECT_EQ(npu({"ckpt", "verify", "tiny"}).code, 0);
  const std::string weights = root_ + "/w.safetensors", logits = root_ + "/logits.f32";
  const Outcome exported = npu({"ckpt", "export", "tiny", "--to", weights});
  ASSERT_EQ(exported.code, 0) << exported.err;
  ASSERT_NO_FATAL_FAILURE(write_logits(weights, logits));

  if (run({"/usr/bin/python3", "-c", "import torch"}).code != 0) {
    GTEST_SKIP() << "python3-torch is not installed: the export was made but not compared";
  }
  const Outcome got =
      run({"/usr/bin/python3", NPU_TORCH_SCRIPT, c.arch, std::to_string(c.channels),
           std::to_string(c.size), std::to_string(kImages), weights, logits, "1e-4"});
  std::printf("%s", got.out.c_str());
  EXPECT_EQ(got.code, 0) << got.err;
}

INSTANTIATE_TEST_SUITE_P(
    Arch, ExportTest,
    testing::Values(Case{"resnet8", 16, 1, {}}, Case{"resnet20", 28, 1, {"train.epochs=1"}},
                    Case{"resnet18",
                         64,
                         3,
                         {"train.epochs=1", "devices=0-1", "data.train_samples=64",
                          "data.val_samples=16", "train.batch_size=16"}}),
    [](const auto& test) { return std::string(test.param.arch); });

using AverageExportTest = E2eTest;

TEST_F(AverageExportTest, EmaExportsTheAverageWithTheModelsNames) {
  done({"train.epochs=1", "train.ema_decay=0.5"});
  const std::string weights = root_ + "/w.safetensors", average = root_ + "/a.safetensors";
  ASSERT_EQ(npu({"ckpt", "export", "tiny", "--to", weights}).code, 0);
  const Outcome exported = npu({"ckpt", "export", "tiny", "--ema", "--to", average});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const auto open = [](const std::string& path) {
    return SafetensorsFile::open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
  };
  const auto one = open(weights), other = open(average);
  ASSERT_TRUE(one && other);
  ASSERT_EQ(one->tensors().size(), other->tensors().size());
  for (const auto& tensor : one->tensors()) {
    const auto* const same = other->find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->shape, tensor.shape);
    std::vector<std::byte> a(tensor.size_bytes()), b(same->size_bytes());
    ASSERT_TRUE(one->read_tensor(tensor, a) && other->read_tensor(*same, b));
    EXPECT_EQ(a == b, tensor.name.ends_with("num_batches_tracked")) << tensor.name;
  }
}

TEST_F(AverageExportTest, EmaOfAJobWithoutOneIsRefused) {
  done({"train.epochs=1"});
  const Outcome got = npu({"ckpt", "export", "tiny", "--ema", "--to", root_ + "/a.safetensors"});
  EXPECT_EQ(got.code, 66) << got.err;
  EXPECT_THAT(got.err, HasSubstr("holds no averaged weights"));
}

using DamageTest = E2eTest;

TEST_F(DamageTest, DamagedCheckpointDoesNotVerify) {
  const client::DoneEvent end = done({});
  const std::string path = end.checkpoint + "/model.safetensors";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::fstream damaged(path, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-5, std::ios::end);
  damaged.put('\x7f');
  damaged.close();
  const Outcome got = npu({"ckpt", "verify", "tiny"});
  EXPECT_EQ(got.code, 65) << got.out << got.err;
  EXPECT_THAT(got.err, HasSubstr("1 of 2"));
  const Outcome next = launch({});
  ASSERT_EQ(next.code, 0) << next.err;
  const auto events = events_of(next.out);
  EXPECT_EQ(last<client::StartEvent>(events)->resumed_step, 9);
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, end.weights_digest);
}

}  // namespace
}  // namespace npu::e2e
