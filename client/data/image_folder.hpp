// A folder of classes with image files below: which files there are and what they are labelled, in
// torchvision's order. Nothing is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/data/class_table.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

/// The files of one split. Names are kept in one block: a set of a million files takes about 60 MB.
/// Thread: any, it never changes once scanned.
class ImageFolder {
 public:
  /// Classes are the sub-directories of `root`, hidden ones too, sorted by bytes; files below a
  /// class at any depth, directories sorted by their path, then files by name; extensions of
  /// image_extension(). Links are followed. Errors: not_found (exit 66) when there is no `root`;
  /// failed_precondition (exit 65): no class, classes without a file (all of them named), a
  /// directory that contains itself; as the system says for one that cannot be read.
  /// Source: matches torchvision 0.14 datasets.ImageFolder.
  [[nodiscard]] static Result<ImageFolder> scan(const std::string& root);

  [[nodiscard]] size_t size() const noexcept { return labels_.size(); }
  [[nodiscard]] int32_t label(size_t i) const noexcept { return labels_[i]; }
  [[nodiscard]] std::string path(size_t i) const;
  /// As path(), into a reused string.
  void path(size_t i, std::string& out) const;
  [[nodiscard]] const ClassTable& classes() const noexcept { return classes_; }
  [[nodiscard]] const std::string& root() const noexcept { return root_; }

 private:
  std::string root_;
  ClassTable classes_;
  std::string names_;  // all paths below root_, one behind the other
  std::vector<uint64_t> ends_;
  std::vector<int32_t> labels_;
};

/// jpg jpeg png ppm bmp pgm tif tiff webp, in any case, after a dot.
[[nodiscard]] bool has_image_extension(std::string_view name) noexcept;

struct SplitFolders {
  std::string train, val;
};

/// `path`/train and the first that exists of `path`/val, validation, test. Errors: not_found (exit
/// 66) saying what is missing.
[[nodiscard]] Result<SplitFolders> find_splits(const std::string& path);

}  // namespace npu::data
