// model.pretrained: weights of torchvision and of pytorch-cifar give their logits here, ours load
// there, a job starts from them on all ranks, and a file that does not do is rank 0's failure.
#include "client/train/pretrained.hpp"

#include <gmock/gmock.h>

#include "client/train/snapshot.hpp"
#include "torch_fixture.hpp"

namespace npu::e2e {
namespace {

using model::StateKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kNoTorchvision = 77;

std::vector<std::byte> tensor_bytes_of(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry* entry = file.find(name);
  EXPECT_NE(entry, nullptr) << name;
  if (entry == nullptr) return {};
  std::vector<std::byte> bytes(entry->size_bytes());
  EXPECT_TRUE(file.read_tensor(*entry, bytes));
  return bytes;
}

struct Theirs {
  const char* model;
  const char* arch;
  int classes, height, width, images;
};

void PrintTo(const Theirs& c, std::ostream* os) { *os << c.model; }

class TheirWeights : public TorchTest, public testing::WithParamInterface<Theirs> {};

TEST_P(TheirWeights, GiveTheirLogits) {
  const Theirs& c = GetParam();
  const std::string weights = root_ + "/w.safetensors", logits = root_ + "/logits.f32";
  const Outcome saved = run({"/usr/bin/python3", NPU_TORCHVISION_SCRIPT, "save", c.model,
                             std::to_string(c.classes), std::to_string(c.height),
                             std::to_string(c.width), std::to_string(c.images), weights, logits});
  if (saved.code == kNoTorchvision) GTEST_SKIP() << "python3-torchvision is not installed";
  ASSERT_EQ(saved.code, 0) << saved.err;

  auto network = model::Network::plan({.arch = c.arch,
                                       .num_classes = c.classes,
                                       .height = c.height,
                                       .width = c.width,
                                       .batch = c.images,
                                       .training = false});
  ASSERT_TRUE(network) << network.error().message;
  model::HeapAllocator heap;
  ASSERT_TRUE(network->bind(heap));
  network->initialise(1);
  std::vector<float> scratch(client::largest_entry(*network));
  const auto file = client::open_pretrained(weights);
  ASSERT_TRUE(file) << file.error().message;
  const auto loaded = client::load_pretrained(*network, *file, false, scratch);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto images = formula_images(static_cast<size_t>(c.images * c.height * c.width * 3));
  const auto ours = network->forward_eval(images, c.images);
  ASSERT_TRUE(ours) << ours.error().message;

  const std::string theirs = contents(logits);
  ASSERT_EQ(theirs.size(), ours->size_bytes());
  double largest = 0;
  for (size_t i = 0; i < ours->size(); ++i) {
    float want = 0;
    std::memcpy(&want, theirs.data() + i * sizeof(float), sizeof(float));
    const double difference = std::abs(static_cast<double>((*ours)[i]) - want);
    ASSERT_TRUE(difference <= 1e-4) << "logit " << i << ": " << (*ours)[i] << ", want " << want;
    largest = std::max(largest, difference);
  }
  std::printf("%slargest difference of a logit %.2e\n", saved.out.c_str(), largest);
}

INSTANTIATE_TEST_SUITE_P(Model, TheirWeights,
                         testing::Values(Theirs{"resnet50", "resnet50", 1000, 97, 65, 3},
                                         Theirs{"kuangliu-resnet18", "resnet18-32", 10, 32, 32, 5}),
                         [](const auto& test) {
                           return test.index == 0 ? "Torchvision" : "PytorchCifar";
                         });

class OurExport : public TorchTest, public testing::WithParamInterface<const char*> {};

TEST_P(OurExport, LoadsInTorchvisionWithEqualTensors) {
  const std::string arch = GetParam(), weights = root_ + "/w.safetensors";
  const Outcome trained =
      launch({"model.arch=" + arch, "data.image_size=32", "data.channels=3", "train.epochs=1",
              "devices=0-1", "data.train_samples=8", "data.val_samples=2", "train.batch_size=8"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome exported = npu({"ckpt", "export", "tiny", "--to", weights});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Outcome got =
      run({"/usr/bin/python3", NPU_TORCHVISION_SCRIPT, "load", arch, "10", weights});
  if (got.code == kNoTorchvision) GTEST_SKIP() << "python3-torchvision is not installed";
  std::printf("%s", got.out.c_str());
  EXPECT_EQ(got.code, 0) << got.out << got.err;
}

INSTANTIATE_TEST_SUITE_P(Arch, OurExport, testing::Values("resnet18", "resnet50"),
                         [](const auto& test) { return std::string(test.param); });

class PretrainedJob : public E2eTest {
 protected:
  /// The export of a short run of resnet8 with 10 classes.
  std::string weights() {
    const std::string path = root_ + "/w.safetensors";
    EXPECT_EQ(launch({"train.epochs=1"}).code, 0);
    EXPECT_EQ(npu({"ckpt", "export", "tiny", "--to", path}).code, 0);
    return path;
  }

  /// A job of another name, so that it resumes from nothing of `weights`.
  Outcome tune(const std::vector<std::string>& sets, const std::string& output = "json") {
    std::vector<std::string> args = {"launch", job("tune"), "-o", output};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return npu(args);
  }

  void expect_refused(const std::string& path, int code, const std::string& words) {
    const Outcome got = tune({"model.pretrained=" + path});
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_THAT(got.err, AllOf(HasSubstr("rank 0 failed first: exit code " + std::to_string(code)),
                               HasSubstr("error: "), HasSubstr(words), HasSubstr(path)));
    const auto error = last<client::ErrorEvent>(events_of(got.out));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->exit_code, code);
    EXPECT_EQ(error->rank, 0);
    EXPECT_THAT(error->message, HasSubstr(words));
  }
};

TEST_F(PretrainedJob, StartsFromTheFileAndSaysSo) {
  const std::string path = weights();
  // A learning rate of 0 leaves the parameters as they were loaded.
  const Outcome got = tune({"model.pretrained=" + path, "train.epochs=1", "optimizer.lr=0"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  EXPECT_EQ(last<client::StartEvent>(events)->pretrained, path);

  const auto before = client::open_pretrained(path);
  ASSERT_TRUE(before);
  const auto after =
      client::open_pretrained(last<client::DoneEvent>(events)->checkpoint + "/model.safetensors");
  ASSERT_TRUE(after);
  EXPECT_EQ(before->tensors().size(), after->tensors().size());
  for (const TensorEntry& entry : before->tensors()) {
    const auto was = tensor_bytes_of(*before, entry.name), is = tensor_bytes_of(*after, entry.name);
    if (entry.name.ends_with("weight") || entry.name.ends_with("bias")) {
      EXPECT_EQ(was, is) << entry.name;
    } else {
      EXPECT_NE(was, is) << entry.name;  // eight more batches
    }
  }
  int64_t batches = 0;
  std::memcpy(&batches, tensor_bytes_of(*after, "bn1.num_batches_tracked").data(), 8);
  EXPECT_EQ(batches, 16);
}

TEST_F(PretrainedJob, TextOutputNamesTheFile) {
  const std::string path = weights();
  const Outcome got = tune({"model.pretrained=" + path, "train.epochs=1"}, "text");
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("using pre-trained model '" + path + "'\n"));
}

TEST_F(PretrainedJob, ResumedRunDoesNotOpenTheFile) {
  const std::string path = weights();
  ASSERT_EQ(tune({"model.pretrained=" + path, "train.stop_after_steps=3"}).code, 0);
  const Outcome straight = launch({"name=other", "model.pretrained=" + path});
  ASSERT_EQ(straight.code, 0) << straight.err;
  std::filesystem::remove(path);
  const Outcome resumed = tune({"model.pretrained=" + path});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const auto events = events_of(resumed.out);
  const auto start = last<client::StartEvent>(events);
  EXPECT_EQ(start->resumed_step, 4);
  EXPECT_EQ(start->pretrained, std::nullopt);
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest,
            last<client::DoneEvent>(events_of(straight.out))->weights_digest);
}

TEST_F(PretrainedJob, OtherClassesNeedIgnoreHead) {
  const std::string path = weights();
  const std::vector<std::string> five = {"model.pretrained=" + path, "model.num_classes=5",
                                         "train.epochs=1"};
  const Outcome refused = tune(five);
  EXPECT_EQ(refused.code, 65);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("rank 0 failed first: exit code 65"),
                                 HasSubstr("tensor 'fc.weight' is [10, 64], fc.weight of model"),
                                 HasSubstr("model.ignore_head: true")));
  auto ignored = five;
  ignored.emplace_back("model.ignore_head=true");
  const Outcome got = tune(ignored);
  EXPECT_EQ(got.code, 0) << got.err;
}

TEST_F(PretrainedJob, FileThatDoesNotDoIsTheFailureOfRankZero) {
  expect_refused(root_ + "/none.safetensors", 66, "No such file or directory");
  expect_refused(root_, 66, "a regular file is needed");
  expect_refused(file("text.safetensors", "no tensors here"), 65, "expected a whole safetensors");
  const std::string path = weights();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_refused(path, 65, "it was cut or damaged");
}

}  // namespace
}  // namespace npu::e2e
