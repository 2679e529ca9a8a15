#include "client/data/cifar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "client/data/cifar_records.hpp"
#include "client/image/decoder.hpp"
#include "shm/base/fd.hpp"

namespace npu::data {
namespace {

constexpr size_t kImage = size_t{3} * kCifarSide * kCifarSide;
constexpr uint64_t kMaxNamesBytes = 64 * 1024;

struct Format {
  std::string_view name, below, names_file;
  size_t label_bytes, label_at;
  int classes;
  size_t train_records;  // of one file
  size_t test_records;
  std::array<std::string_view, 5> train;
  size_t train_files;
  std::string_view test;
  Normalization normalization;
};

// Means and deviations are those of the training images, as commonly published.
const Format kCifar10 = {
    "CIFAR-10",
    "cifar-10-batches-bin",
    "batches.meta.txt",
    1,
    0,
    10,
    10'000,
    10'000,
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
     "data_batch_5.bin"},
    5,
    "test_batch.bin",
    {.mean = {0.4914F, 0.4822F, 0.4465F, 0.5F}, .stddev = {0.2470F, 0.2435F, 0.2616F, 0.5F}}};
const Format kCifar100 = {
    "CIFAR-100",
    "cifar-100-binary",
    "fine_label_names.txt",
    2,
    1,
    100,
    50'000,
    10'000,
    {"train.bin"},
    1,
    "test.bin",
    {.mean = {0.5071F, 0.4865F, 0.4409F, 0.5F}, .stddev = {0.2673F, 0.2564F, 0.2762F, 0.5F}}};

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::vector<std::string> needed(const Format& format) {
  std::vector<std::string> names(format.train.begin(),
                                 format.train.begin() + static_cast<ptrdiff_t>(format.train_files));
  names.emplace_back(format.test);
  return names;
}

/// The folder that holds the files.
Result<std::string> locate(const std::string& folder, const Format& format) {
  const std::string below = fmt::format("{}/{}", folder, format.below);
  const std::string chosen = exists(below) ? below : folder;
  std::string missing;
  for (const std::string& name : needed(format)) {
    if (!exists(chosen + "/" + name)) missing += (missing.empty() ? "" : ", ") + name;
  }
  if (missing.empty()) return chosen;
  return fail_exit(Code::kNotFound, Exit::kNoInput,
                   "open data '{}': no {} in '{}'; set data.path to the folder of {} in its binary "
                   "version, or to the one above '{}'",
                   folder, missing, chosen, format.name, format.below);
}

/// What a file's records are appended to.
struct Split {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
};

Result<void> append_file(const std::string& path, const Format& format, size_t records,
                         Split& split) {
  std::vector<uint8_t> bytes;
  NPU_TRY_VOID(image::read_file(path, bytes));
  return append_cifar(path, bytes,
                      {.label_bytes = format.label_bytes,
                       .label_at = format.label_at,
                       .classes = format.classes,
                       .records = records},
                      split.pixels, split.labels);
}

/// A set without the file has no names, which is no error.
Result<ClassTable> read_names(const std::string& path, const Format& format) {
  if (!exists(path)) return ClassTable();
  NPU_TRY(const std::string text, read_file(path, kMaxNamesBytes));
  return parse_class_names(path, text, format.classes);
}

Dataset make_set(Split split, const Format& format) {
  return {{kCifarSide, kCifarSide, 3}, format.classes, std::move(split.pixels), std::move(split.labels)};
}

}  // namespace

Result<DatasetPair> open_cifar(const std::string& folder, Cifar kind) {
  const Format& format = kind == Cifar::k10 ? kCifar10 : kCifar100;
  NPU_TRY(const std::string place, locate(folder, format));
  Split train;
  Split val;
  train.pixels.reserve(format.train_files * format.train_records * kImage);
  for (size_t i = 0; i < format.train_files; ++i) {
    NPU_TRY_VOID(append_file(fmt::format("{}/{}", place, format.train[i]), format,
                             format.train_records, train));
  }
  NPU_TRY_VOID(
      append_file(fmt::format("{}/{}", place, format.test), format, format.test_records, val));
  DatasetPair out;
  NPU_TRY(out.classes, read_names(fmt::format("{}/{}", place, format.names_file), format));
  out.train = make_set(std::move(train), format);
  out.val = make_set(std::move(val), format);
  out.normalization = format.normalization;
  out.description =
      fmt::format("{}, {} train + {} val", format.name, out.train.size(), out.val.size());
  return out;
}

}  // namespace npu::data
