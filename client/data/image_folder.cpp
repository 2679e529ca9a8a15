#include "client/data/image_folder.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

namespace npu::data {
namespace {

constexpr std::array<std::string_view, 9> kExtensions = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                         ".pgm", ".tif",  ".tiff", ".webp"};

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

bool is_directory(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

/// What a directory holds, unsorted.
struct Listing {
  std::vector<std::string> directories, files;
};

Result<Listing> list(const std::string& path) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(path.c_str()));
  if (!dir) return fail_errno(fmt::format("read folder '{}'", path));
  Listing out;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) return fail_errno(fmt::format("read folder '{}'", path));
      return out;
    }
    std::string name(entry->d_name);
    if (name == "." || name == "..") continue;
    // Most file systems say what it is; a link, or nothing, needs a closer look.
    bool directory = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      directory = is_directory(path + "/" + name);
    }
    (directory ? out.directories : out.files).push_back(std::move(name));
  }
}

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// All directories from `path` downwards, as paths below `root`, with their image files.
class Walk {
 public:
  struct Directory {
    std::string below_root;
    std::vector<std::string> files;
  };

  explicit Walk(const std::string& root) : root_(root) {}

  Result<void> enter(const std::string& below_root) {
    const std::string path = root_ + "/" + below_root;
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return fail_errno(fmt::format("read folder '{}'", path));
    const FileId id{st.st_dev, st.st_ino};
    if (std::ranges::find(above_, id) != above_.end()) {
      return fail(Code::kFailedPrecondition,
                  "read folder '{}': it is a link to a folder above it, so it would never end",
                  path);
    }
    NPU_TRY(Listing listing, list(path));
    std::erase_if(listing.files, [](const std::string& n) { return !has_image_extension(n); });
    std::ranges::sort(listing.files);
    above_.push_back(id);
    for (const std::string& name : listing.directories) {
      NPU_TRY_VOID(enter(below_root + "/" + name));
    }
    above_.pop_back();
    found_.push_back({below_root, std::move(listing.files)});
    return {};
  }

  /// Sorted by whole path, as Python sorts what os.walk gives: "a-b" comes before "a/b".
  std::vector<Directory> take() {
    std::ranges::sort(found_, {}, &Directory::below_root);
    return std::move(found_);
  }

 private:
  const std::string& root_;
  std::vector<FileId> above_;
  std::vector<Directory> found_;
};

}  // namespace

bool has_image_extension(std::string_view name) noexcept {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view tail = name.substr(dot);
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::any_of(kExtensions, [&](std::string_view extension) {
    return std::ranges::equal(tail, extension, {}, lower);
  });
}

Result<ImageFolder> ImageFolder::scan(const std::string& root) {
  if (!is_directory(root)) {
    return fail_exit(Code::kNotFound, Exit::kNoInput,
                     "open image folder '{}': there is no such folder; set data.path", root);
  }
  ImageFolder out;
  out.root_ = root;
  NPU_TRY(Listing listing, list(root));
  out.classes_ = std::move(listing.directories);
  std::ranges::sort(out.classes_);
  if (out.classes_.empty()) {
    return fail(Code::kFailedPrecondition,
                "open image folder '{}': it has no sub-folders; one a class is expected, with the "
                "class's images in it",
                root);
  }
  std::vector<std::string> empty;
  for (size_t c = 0; c < out.classes_.size(); ++c) {
    Walk walk(root);
    NPU_TRY_VOID(walk.enter(out.classes_[c]));
    const size_t before = out.size();
    for (const Walk::Directory& directory : walk.take()) {
      for (const std::string& file : directory.files) {
        out.names_ += directory.below_root;
        out.names_ += '/';
        out.names_ += file;
        out.ends_.push_back(out.names_.size());
        out.labels_.push_back(static_cast<int32_t>(c));
      }
    }
    if (out.size() == before) empty.push_back(out.classes_[c]);
  }
  if (!empty.empty()) {
    return fail(
        Code::kFailedPrecondition,
        "open image folder '{}': no image in {} of {} classes: {}; expected files ending "
        "in jpg, jpeg, png, ppm, bmp, pgm, tif, tiff or webp; add some or remove the folder",
        root, empty.size(), out.classes_.size(), some_names(empty));
  }
  return out;
}

void ImageFolder::path(size_t i, std::string& out) const {
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  out.assign(root_);
  out += '/';
  out.append(names_, begin, ends_[i] - begin);
}

std::string ImageFolder::path(size_t i) const {
  std::string out;
  path(i, out);
  return out;
}

Result<SplitFolders> find_splits(const std::string& path) {
  const auto missing = [&](std::string_view what) {
    return fail_exit(Code::kNotFound, Exit::kNoInput, "open data '{}': {}", path, what);
  };
  if (!is_directory(path)) return missing("there is no such folder; set data.path");
  SplitFolders out{.train = path + "/train", .val = {}};
  if (!is_directory(out.train)) {
    return missing(
        "it has no folder 'train'; expected 'train' and one of 'val', 'validation', "
        "'test', each with a folder a class");
  }
  for (const char* name : {"val", "validation", "test"}) {
    out.val = fmt::format("{}/{}", path, name);
    if (is_directory(out.val)) return out;
  }
  return missing("it has a folder 'train', but none of 'val', 'validation', 'test'");
}

}  // namespace npu::data
