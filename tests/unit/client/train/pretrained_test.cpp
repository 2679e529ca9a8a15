// Weights from a file: what is taken, under which names, and the sentence for each thing that can
// be wrong with it.
#include "client/train/pretrained.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <span>

#include "client/train/snapshot.hpp"
#include "shm/format/safetensors.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::client {
namespace {

using model::StateKind;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct Tensor {
  FileDType dtype = FileDType::kF32;
  TensorShape shape;
  std::vector<std::byte> bytes;
};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

class PretrainedTest : public testing::Test {
 protected:
  explicit PretrainedTest(const std::string& arch = "resnet8")
      : network_(*model::Network::plan(config(arch))) {
    EXPECT_TRUE(network_.bind(heap_));
    network_.initialise(1);
    scratch_.resize(largest_entry(network_));
    float next = 0.25F;
    for (const model::StateEntry& e : network_.state()) {
      Tensor t{FileDType::kF32, TensorShape(e.shape.begin(), e.shape.end()), {}};
      if (e.kind == StateKind::kBatchesTracked) {
        t.dtype = FileDType::kI64;
        t.bytes = bytes_of(std::vector<int64_t>{static_cast<int64_t>(tensors_.size())});
      } else {
        std::vector<float> values(e.count);
        // Multiples of 2^-6 up to 4: exact in each of the types.
        for (float& v : values) v = next = next >= 4 ? 1.0F / 64 : next + 1.0F / 64;
        t.bytes = bytes_of(values);
      }
      tensors_[e.name] = std::move(t);
    }
  }

  static model::NetworkConfig config(const std::string& arch) {
    return {.arch = arch,
            .num_classes = 3,
            .channels = 1,
            .height = 16,
            .width = 16,
            .batch = 1,
            .training = false};
  }

  std::vector<std::byte> file_bytes() const {
    std::vector<TensorSpec> specs;
    std::vector<const Tensor*> in_order;
    for (const auto& [name, tensor] : tensors_) {
      specs.push_back({name, tensor.dtype, tensor.shape});
      in_order.push_back(&tensor);
    }
    const auto plan = SafetensorsPlan::build(specs, {{"format", "pt"}});
    EXPECT_TRUE(plan) << plan.error().message;
    std::vector<std::byte> all(plan->header().begin(), plan->header().end());
    for (const auto& place : plan->placements()) {
      const auto& bytes = in_order[place.index]->bytes;
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  void write(const std::vector<std::byte>& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  Result<void> load(bool ignore_head = false) {
    write(file_bytes());
    return load_file(ignore_head);
  }
  Result<void> load_file(bool ignore_head = false) {
    NPU_TRY(const SafetensorsFile file, open_pretrained(path_));
    return load_pretrained(network_, file, ignore_head, scratch_);
  }

  /// The sentence of a load that has to fail with this exit code.
  std::string problem(const Result<void>& result, Exit exit = Exit::kBadData) {
    if (result) return "accepted";
    EXPECT_EQ(result.error().exit, exit) << result.error().message;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    return result.error().message;
  }

  void rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    node.key() = to;
    tensors_.insert(std::move(node));
  }
  /// Each name with `from` in it, with `to` in its place.
  void replace_in_names(const std::string& from, const std::string& to) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors_) {
      std::string other = name;
      if (const size_t at = other.find(from); at != std::string::npos)
        other.replace(at, from.size(), to);
      renamed[other] = std::move(tensor);
    }
    tensors_ = std::move(renamed);
  }

  std::vector<std::byte> loaded(size_t i) const {
    const model::StateEntry& e = network_.state()[i];
    if (e.kind == StateKind::kBatchesTracked)
      return bytes_of(std::vector<int64_t>{network_.batches_tracked(i)});
    std::vector<float> values(e.count);
    network_.export_state(i, values);
    return bytes_of(values);
  }

  void expect_loaded(const std::map<std::string, Tensor>& want) const {
    for (size_t i = 0; i < network_.state().size(); ++i) {
      const std::string& name = network_.state()[i].name;
      if (!want.contains(name)) continue;
      EXPECT_EQ(loaded(i), want.at(name).bytes) << name;
    }
  }

  test::TempDir dir_;
  const std::string path_ = dir_.path() + "/w.safetensors";
  model::HeapAllocator heap_;
  model::Network network_;
  std::vector<float> scratch_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(PretrainedTest, EveryEntryHasTheBytesOfTheFile) {
  const auto sut = load();
  ASSERT_TRUE(sut) << sut.error().message;
  expect_loaded(tensors_);
}

/// The smallest one with shortcuts that have weights.
class PretrainedResNet18 : public PretrainedTest {
 protected:
  PretrainedResNet18() : PretrainedTest("resnet18") {}
};

TEST_F(PretrainedResNet18, NamesOfDataParallelAndPytorchCifarLoad) {
  const auto want = tensors_;
  replace_in_names("downsample", "shortcut");
  replace_in_names("fc.", "linear.");
  replace_in_names("", "module.");
  ASSERT_TRUE(tensors_.contains("module.layer2.0.shortcut.1.running_var"));
  ASSERT_TRUE(tensors_.contains("module.linear.weight"));
  const auto sut = load();
  ASSERT_TRUE(sut) << sut.error().message;
  expect_loaded(want);
}

TEST_F(PretrainedTest, OtherFloatingPointTypesBecomeFp32) {
  const auto want = tensors_;
  size_t n = 0;
  for (auto& [name, tensor] : tensors_) {
    if (tensor.dtype == FileDType::kI64) continue;
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    switch (n++ % 4) {
      case 0:
        tensor.dtype = FileDType::kF64;
        tensor.bytes = bytes_of(std::vector<double>(values.begin(), values.end()));
        break;
      case 1:
        tensor.dtype = FileDType::kF16;
        tensor.bytes = bytes_of(std::vector<Eigen::half>(values.begin(), values.end()));
        break;
      case 2:
        // 2^-6 steps below 4 are 8 bits, as many as a BF16 has.
        tensor.dtype = FileDType::kBF16;
        tensor.bytes = bytes_of(std::vector<Eigen::bfloat16>(values.begin(), values.end()));
        break;
      default:
        break;
    }
  }
  const auto sut = load();
  ASSERT_TRUE(sut) << sut.error().message;
  expect_loaded(want);
}

TEST_F(PretrainedTest, BatchCountersMayBeAbsent) {
  std::erase_if(tensors_, [](const auto& t) { return t.first.ends_with("tracked"); });
  const auto sut = load();
  ASSERT_TRUE(sut) << sut.error().message;
  expect_loaded(tensors_);
  EXPECT_EQ(network_.batches_tracked(5), 0);
}

TEST_F(PretrainedTest, IgnoredHeadStaysAsInitialisedWhateverTheFileHas) {
  const size_t fc = network_.state().size() - 2;
  const auto weight = loaded(fc), bias = loaded(fc + 1);
  tensors_["fc.weight"] = {FileDType::kI8, {7}, std::vector<std::byte>(7)};
  ASSERT_TRUE(load(true));
  EXPECT_EQ(loaded(fc), weight);
  EXPECT_EQ(loaded(fc + 1), bias);
  tensors_.erase("fc.weight");
  tensors_.erase("fc.bias");
  ASSERT_TRUE(load(true));
  EXPECT_EQ(loaded(fc), weight);
  expect_loaded(tensors_);
}

TEST_F(PretrainedTest, OtherHeadNamesBothShapesAndTheWayOut) {
  tensors_["fc.weight"] = {FileDType::kF32, {1000, 64}, std::vector<std::byte>(1000 * 64 * 4)};
  tensors_["fc.bias"] = {FileDType::kF32, {1000}, std::vector<std::byte>(1000 * 4)};
  rename("fc.weight", "module.linear.weight");
  EXPECT_THAT(problem(load()), AllOf(HasSubstr("model.pretrained '" + path_ + "'"),
                                     HasSubstr("'module.linear.weight' is [1000, 64]"),
                                     HasSubstr("fc.weight of model.arch resnet8 is [3, 64]"),
                                     HasSubstr("model.ignore_head: true leaves the classifier")));
  EXPECT_TRUE(load_file(true));
}

TEST_F(PretrainedTest, OtherShapeNamesTheTensorAndBothShapes) {
  tensors_["conv1.weight"] = {FileDType::kF32, {16, 3, 3, 3}, std::vector<std::byte>(16 * 27 * 4)};
  EXPECT_THAT(problem(load()),
              AllOf(HasSubstr("tensor 'conv1.weight' is [16, 3, 3, 3]"),
                    HasSubstr("resnet8 is [16, 1, 3, 3]; the data set has images of 1 channel(s)"),
                    Not(HasSubstr("ignore_head"))));
  tensors_["conv1.weight"] = {FileDType::kF32, {144}, std::vector<std::byte>(144 * 4)};
  EXPECT_THAT(problem(load()), HasSubstr("is [144], conv1.weight of"));
}

TEST_F(PretrainedTest, MissingTensorsAreNamedAndCounted) {
  tensors_.erase("layer1.0.conv1.weight");
  EXPECT_THAT(problem(load()), EndsWith("does not fit model.arch resnet8: it lacks 1 tensor: "
                                        "'layer1.0.conv1.weight'"));
  for (const char* name : {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"})
    tensors_.erase(name);
  EXPECT_THAT(problem(load()), EndsWith("it lacks 5 tensors: 'bn1.weight', 'bn1.bias', "
                                        "'bn1.running_mean' and 2 more"));
}

TEST_F(PretrainedTest, MissingHeadHasAWayOut) {
  tensors_.erase("fc.bias");
  EXPECT_THAT(problem(load()), AllOf(HasSubstr("it lacks 1 tensor: 'fc.bias'"),
                                     HasSubstr("model.ignore_head: true")));
}

TEST_F(PretrainedTest, LeftOverTensorsAreNamedAndCounted) {
  for (const char* name : {"layer1.2.conv1.weight", "layer1.2.bn1.weight", "a", "\n\u00e9"})
    tensors_[name] = {FileDType::kF32, {1}, std::vector<std::byte>(4)};
  tensors_.erase("conv1.weight");
  EXPECT_THAT(problem(load()),
              AllOf(HasSubstr("lacks 1 tensor: 'conv1.weight'; has 4 tensors that the network has "
                              "not: '\\x0a"),
                    EndsWith(" and 1 more")));
}

TEST_F(PretrainedTest, OneNameTwiceIsRefused) {
  tensors_["module.conv1.weight"] = tensors_["conv1.weight"];
  EXPECT_THAT(problem(load()),
              HasSubstr("tensors 'conv1.weight' and 'module.conv1.weight' are both conv1.weight"));
}

TEST_F(PretrainedTest, TypesThatAreNoFloatsAreRefused) {
  tensors_["bn1.bias"] = {FileDType::kI32, {16}, std::vector<std::byte>(64)};
  EXPECT_THAT(problem(load()), HasSubstr("tensor 'bn1.bias' is of type I32, expected F32, F16"));
  tensors_["bn1.bias"] = {FileDType::kF32, {16}, std::vector<std::byte>(64)};
  tensors_["bn1.num_batches_tracked"] = {FileDType::kF32, {}, std::vector<std::byte>(4)};
  EXPECT_THAT(problem(load()), HasSubstr("is of type F32, expected I64"));
}

TEST_F(PretrainedTest, ValuesThatNoRunCanStartFromAreRefused) {
  const auto with = [&](const char* name, float value) {
    const Tensor good = tensors_[name];
    std::memcpy(tensors_[name].bytes.data() + 8, &value, sizeof(value));
    const std::string text = problem(load());
    tensors_[name] = good;
    return text;
  };
  EXPECT_THAT(with("bn1.weight", NAN), HasSubstr("element 2 of tensor 'bn1.weight' is nan"));
  EXPECT_THAT(with("fc.weight", INFINITY), HasSubstr("element 2 of tensor 'fc.weight' is inf"));
  EXPECT_THAT(with("bn1.running_var", -1), HasSubstr("is -1, expected a finite number from 0"));
  EXPECT_EQ(with("bn1.running_mean", -1), "accepted");
  tensors_["bn1.bias"] = {FileDType::kF64, {16}, bytes_of(std::vector<double>(16, 1e300))};
  EXPECT_THAT(problem(load()), HasSubstr("element 0 of tensor 'bn1.bias' is inf"));
  tensors_["bn1.bias"] = {FileDType::kF32, {16}, std::vector<std::byte>(64)};
  for (const int64_t count : {int64_t{-1}, INT64_MAX}) {
    tensors_["bn1.num_batches_tracked"].bytes = bytes_of(std::vector<int64_t>{count});
    EXPECT_THAT(problem(load()), HasSubstr("counts " + std::to_string(count) + " batches"));
  }
}

TEST_F(PretrainedTest, RefusedNamesAndShapesLeaveTheNetworkAsItWas) {
  const auto before = loaded(0);
  tensors_["fc.bias"] = {FileDType::kF32, {4}, std::vector<std::byte>(16)};
  EXPECT_FALSE(load());
  EXPECT_EQ(loaded(0), before);
}

TEST_F(PretrainedTest, MissingFileIsNoInput) {
  EXPECT_THAT(problem(load_file(), Exit::kNoInput),
              HasSubstr("open model.pretrained '" + path_ + "': No such file"));
}

TEST_F(PretrainedTest, PipesAndDirectoriesAreNoInput) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(problem(load_file(), Exit::kNoInput), HasSubstr("a regular file is needed"));
  const auto directory = open_pretrained(dir_.path());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().exit, Exit::kNoInput);
  EXPECT_THAT(directory.error().message, HasSubstr("a regular file is needed"));
}

TEST_F(PretrainedTest, OtherFilesSayWhatIsExpected) {
  const std::string zip = "PK\3\4" + std::string(100, 'x');
  for (const std::string& text : {std::string(), std::string("short"), zip}) {
    write(bytes_of(std::vector<char>(text.begin(), text.end())));
    EXPECT_THAT(problem(load_file()), HasSubstr("expected a whole safetensors file"));
  }
}

TEST_F(PretrainedTest, CutAndLengthenedFilesAreBadData) {
  const auto whole = file_bytes();
  for (const size_t keep :
       {whole.size() - 1, whole.size() / 2, size_t{9}, size_t{8}, size_t{7}, size_t{0}}) {
    write({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(keep)});
    EXPECT_THAT(problem(load_file()), HasSubstr(path_)) << keep;
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  write(longer);
  EXPECT_THAT(problem(load_file()), HasSubstr("1 bytes after the last tensor"));
}

TEST_F(PretrainedTest, FileThatIsCutWhileItIsReadIsBadData) {
  const auto whole = file_bytes();
  write(whole);
  const auto file = open_pretrained(path_);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(whole.size() / 2)), 0);
  EXPECT_THAT(problem(load_pretrained(network_, *file, false, scratch_)),
              HasSubstr("the file ends at byte"));
}

TEST_F(PretrainedTest, HeaderThatLiesIsBadData) {
  auto bytes = file_bytes();
  bytes[7] = std::byte{0x7f};  // a header of 2^62 bytes
  write(bytes);
  EXPECT_THAT(problem(load_file()), HasSubstr("above the limit"));
  bytes = file_bytes();
  const std::string shape = R"("shape":[16,1,3,3])";
  const auto at = std::search(bytes.begin(), bytes.end(), shape.begin(), shape.end(),
                              [](std::byte b, char c) { return b == static_cast<std::byte>(c); });
  ASSERT_NE(at, bytes.end());
  at[9] = std::byte{'9'};  // [96,1,3,3] in the bytes of [16,1,3,3]
  write(bytes);
  EXPECT_THAT(problem(load_file()), HasSubstr("shape and dtype F32 need 3456 bytes"));
}

}  // namespace
}  // namespace npu::client
