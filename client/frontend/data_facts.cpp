#include "client/frontend/data_facts.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace npu::frontend {
namespace {

namespace fs = std::filesystem;

bool is_dir(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Folders in `path`; -1 when it cannot be read.
int count_folders(const fs::path& path) {
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (is_dir(at->path())) ++count;
  }
  return error ? -1 : count;
}

bool has_tfrecords(const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("train-") && name.find("-of-") != std::string::npos) return true;
  }
  return false;
}

struct Layout {
  const char* file;
  config::DataFormat format;
  int num_classes;
};

constexpr std::array<Layout, 6> kLayouts = {{
    {"train-images-idx3-ubyte.gz", config::DataFormat::kIdx, 10},
    {"train-images-idx3-ubyte", config::DataFormat::kIdx, 10},
    {"data_batch_1.bin", config::DataFormat::kCifar10, 10},
    {"cifar-10-batches-bin/data_batch_1.bin", config::DataFormat::kCifar10, 10},
    {"train.bin", config::DataFormat::kCifar100, 100},
    {"cifar-100-binary/train.bin", config::DataFormat::kCifar100, 100},
}};

Result<void> look_at_folders(const fs::path& path, DataFacts& facts) {
  const fs::path train = path / "train";
  facts.num_classes = count_folders(train);
  if (facts.num_classes < 0) {
    return fail_exit(Code::kPermissionDenied, Exit::kPermission, "cannot read '{}'",
                     train.string());
  }
  if (facts.num_classes == 0) {
    return fail_exit(Code::kFailedPrecondition, Exit::kNoInput,
                     "'{}' has no class folders; expected train/CLASS/IMAGE.jpg", train.string());
  }
  if (!is_dir(path / "val") && !is_dir(path / "test")) {
    return fail_exit(Code::kNotFound, Exit::kNoInput,
                     "'{}' has train/ but neither val/ nor test/ to validate on", path.string());
  }
  return {};
}

}  // namespace

Result<DataFacts> look_at_data(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "data/" is "data"
  if (error || !is_dir(absolute)) {
    return fail_exit(Code::kNotFound, Exit::kNoInput, "there is no data folder '{}'", path);
  }
  DataFacts facts{.path = absolute.string(), .name = absolute.filename().string()};
  if (is_dir(absolute / "train")) {
    NPU_TRY_VOID(look_at_folders(absolute, facts));
    return facts;
  }
  for (const Layout& layout : kLayouts) {
    const fs::path file = absolute / layout.file;
    if (!is_file(file)) continue;
    facts.path = file.parent_path().string();
    facts.format = layout.format;
    facts.num_classes = layout.num_classes;
    return facts;
  }
  if (has_tfrecords(absolute)) {
    return fail_exit(
        Code::kUnimplemented, Exit::kNoInput,
        "'{}' holds TFRecord files, which are not read; expected train/CLASS/IMAGE.jpg "
        "and val/CLASS/IMAGE.jpg",
        path);
  }
  return fail_exit(Code::kNotFound, Exit::kNoInput,
                   "'{}' is no data folder: expected train/ and val/ (or test/), IDX files, or "
                   "CIFAR's binary batches",
                   path);
}

}  // namespace npu::frontend
