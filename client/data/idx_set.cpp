// Finds the four files, checks that they fit together, and names what they are.
#include "client/data/idx_set.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "client/data/idx.hpp"
#include "client/data/known_sets.hpp"

namespace npu::data {
namespace {

constexpr uint32_t kMaxSide = 4096;

// Order of SetDigest. The dotted names come from some unpackers.
constexpr std::array<std::string_view, 4> kFiles = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte"};

std::array<std::string, 3> candidates(const std::string& folder, std::string_view name) {
  std::string dotted(name);
  dotted[dotted.rfind("-idx")] = '.';
  return {fmt::format("{}/{}.gz", folder, name), fmt::format("{}/{}", folder, name),
          fmt::format("{}/{}", folder, dotted)};
}

// All four are looked for before anything is read, so that one message names everything that is
// missing.
Result<std::array<std::string, 4>> find_files(const std::string& folder) {
  std::array<std::string, 4> found;
  std::string tried;
  for (size_t i = 0; i < kFiles.size(); ++i) {
    const auto paths = candidates(folder, kFiles[i]);
    for (const std::string& path : paths) {
      if (found[i].empty() && ::access(path.c_str(), F_OK) == 0) found[i] = path;
    }
    if (!found[i].empty()) continue;
    tried += fmt::format("{}{}, {} or {}", tried.empty() ? "" : "; ", paths[0], paths[1], paths[2]);
  }
  if (tried.empty()) return found;
  return fail(Code::kNotFound,
              "open data '{}': no {}; set data.path to the folder of an IDX set (Debian: package "
              "dataset-fashion-mnist, /usr/share/datasets/fashion-mnist)",
              folder, tried);
}

Result<Dataset> make_split(IdxArray images, const IdxArray& labels, int num_classes) {
  if (images.dims[0] != labels.dims[0]) {
    return fail(Code::kFailedPrecondition, "read data: {} images in '{}' but {} labels in '{}'",
                images.dims[0], images.path, labels.dims[0], labels.path);
  }
  if (images.dims[1] > kMaxSide || images.dims[2] > kMaxSide) {
    return fail(Code::kFailedPrecondition,
                "read '{}': images of {} x {}, at most {} x {} are accepted", images.path,
                images.dims[1], images.dims[2], kMaxSide, kMaxSide);
  }
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] < num_classes) continue;
    return fail(Code::kFailedPrecondition,
                "read '{}': label {} of image {} is outside 0..{} (model.num_classes is {})",
                labels.path, labels.bytes[i], i, num_classes - 1, num_classes);
  }
  const ImageShape shape{static_cast<int>(images.dims[1]), static_cast<int>(images.dims[2]), 1};
  return Dataset(shape, num_classes, std::move(images.bytes),
                 std::vector<int32_t>(labels.bytes.begin(), labels.bytes.end()));
}

}  // namespace

Result<DatasetPair> open_idx_set(const std::string& folder, int num_classes) {
  NPU_TRY(const auto paths, find_files(folder));
  std::array<IdxArray, 4> files;
  SetDigest digest;
  for (size_t i = 0; i < files.size(); ++i) {
    NPU_TRY(files[i], read_idx(paths[i], i % 2 == 0 ? 3 : 1));
    digest[i] = files[i].md5;
  }
  DatasetPair out;
  NPU_TRY(out.train, make_split(std::move(files[0]), files[1], num_classes));
  NPU_TRY(out.val, make_split(std::move(files[2]), files[3], num_classes));
  if (out.train.shape() != out.val.shape()) {
    return fail(Code::kFailedPrecondition,
                "read data '{}': training images are {} x {}, validation images {} x {}", folder,
                out.train.height(), out.train.width(), out.val.height(), out.val.width());
  }
  if (const KnownSet* known = find_known_set(digest)) {
    out.normalization.mean.fill(known->mean);
    out.normalization.stddev.fill(known->stddev);
  }
  out.description = fmt::format("{}, {} train + {} val", describe_set(digest, folder),
                                out.train.size(), out.val.size());
  return out;
}

}  // namespace npu::data
