#include "client/data/open.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "client/data/cifar.hpp"
#include "client/data/idx_set.hpp"
#include "client/data/memory_source.hpp"
#include "client/data/synthetic.hpp"

namespace npu::data {
namespace {

using config::Augment;
using config::DataFormat;
using config::Job;

constexpr int kFolderSide = 224;
constexpr int kSyntheticSide = 32;

// Of the ImageNet pipelines of PyTorch and TensorFlow.
constexpr Normalization kImagenet{.mean = {0.485F, 0.456F, 0.406F, 0.5F},
                                  .stddev = {0.229F, 0.224F, 0.225F, 0.5F}};
constexpr Normalization kTfImagenet{
    .mean = {123.68F, 116.78F, 103.94F, 0.0F}, .stddev = {1.0F, 1.0F, 1.0F, 1.0F}, .scale = 1.0F};

bool tf_pixels(const Job& job) {
  return job.profile == config::Profile::kTf && job.data.format == DataFormat::kImageFolder &&
         job.data.augment == Augment::kImagenet;
}

/// data.mean and data.std, or what the set has.
Result<Normalization> normalization_of(const config::DataConfig& d, const Normalization& own,
                                       int channels) {
  if (d.mean.empty()) return own;
  if (d.mean.size() != static_cast<size_t>(channels) || d.std.size() != d.mean.size()) {
    return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                     "normalise data '{}': data.mean has {} numbers and data.std {}, the images "
                     "have {} channels; give one of each a channel",
                     d.path, d.mean.size(), d.std.size(), channels);
  }
  Normalization n;
  for (size_t c = 0; c < d.mean.size(); ++c) {
    n.mean[c] = static_cast<float>(d.mean[c]);
    n.stddev[c] = static_cast<float>(d.std[c]);
  }
  return n;
}

ViewOptions view_options(const Job& job, int own, bool training) {
  const InputSize size = input_size(job.data, own);
  return {.augment = training ? job.data.augment : Augment::kNone,
          .tf = tf_pixels(job),
          .size = size.crop,
          .resize = size.resize,
          .seed = job.seed};
}

PictureOptions picture_options(const Job& job, int own, bool training,
                               const Normalization& normalization, const WarningSink& warn) {
  return {.view = view_options(job, own, training),
          .normalization = normalization,
          .bad_image = job.data.bad_image,
          .training = training,
          .label_offset = job.data.label_offset,
          .warn = warn};
}

Result<void> check_classes(const Job& job, size_t classes, const std::string& where) {
  const auto room = static_cast<size_t>(job.model.num_classes - job.data.label_offset);
  if (classes <= room) return {};
  return fail(Code::kFailedPrecondition,
              "open data '{}': {} classes{} do not fit model.num_classes {}; set it to {} or more",
              where, classes, job.data.label_offset == 0 ? "" : " beside background",
              job.model.num_classes, classes + static_cast<size_t>(job.data.label_offset));
}

// ---- sets in memory

Result<DatasetPair> read_set(const Job& job) {
  const config::DataConfig& d = job.data;
  const int classes = job.model.num_classes - d.label_offset;
  switch (d.format) {
    case DataFormat::kIdx:
      return open_idx_set(d.path, classes);
    case DataFormat::kCifar10:
      return open_cifar(d.path, Cifar::k10);
    case DataFormat::kCifar100:
      return open_cifar(d.path, Cifar::k100);
    case DataFormat::kSynthetic: {
      const int side = d.image_size > 0 ? d.image_size : kSyntheticSide;
      return make_synthetic({.shape = {side, side, d.channels},
                             .num_classes = classes,
                             .train_samples = static_cast<size_t>(d.train_samples),
                             .val_samples = static_cast<size_t>(d.val_samples),
                             .seed = job.seed});
    }
    case DataFormat::kImageFolder:
      break;
  }
  return fail(Code::kInternal, "open data '{}': not a set in memory", d.path);
}

/// Whether images go to the network as they are stored, but for a shift and a flip.
bool is_direct(const Job& job, const ImageShape& shape) {
  const InputSize size = input_size(job.data, shape.width);
  if (shape.height != shape.width) {
    return job.data.augment != Augment::kImagenet && job.data.image_size == 0;
  }
  return job.data.augment != Augment::kImagenet && size.crop == shape.width &&
         size.resize == shape.width;
}

std::unique_ptr<SampleSource> make_source(Dataset set, const Normalization& normalization,
                                          const Job& job, bool training) {
  if (is_direct(job, set.shape())) {
    const Augmenter augmenter(set.shape(), normalization,
                              training ? job.data.augment : Augment::kNone, job.seed);
    return std::make_unique<MemorySource>(std::move(set), augmenter, job.data.label_offset);
  }
  const int own = std::max(set.width(), set.height());
  return std::make_unique<PictureSource>(memory_pictures(std::move(set)),
                                         picture_options(job, own, training, normalization, {}));
}

Result<Data> open_in_memory(const Job& job) {
  NPU_TRY(DatasetPair pair, read_set(job));
  NPU_TRY_VOID(check_classes(job, static_cast<size_t>(pair.train.num_classes()), job.data.path));
  const ImageShape shape = pair.train.shape();
  if (!is_direct(job, shape) && shape.channels != 1 && shape.channels != 3) {
    return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                     "open data '{}': images of {} channels are not scaled; leave data.augment "
                     "imagenet and data.image_size out, or use 1 or 3 channels",
                     job.data.path, shape.channels);
  }
  NPU_TRY(const Normalization normalization,
          normalization_of(job.data, pair.normalization, shape.channels));
  Data data;
  data.train = make_source(std::move(pair.train), normalization, job, true);
  data.val = make_source(std::move(pair.val), normalization, job, false);
  data.classes = std::move(pair.classes);
  data.description = std::move(pair.description);
  return data;
}

// ---- folders

Result<Data> open_folders(const Job& job, const WarningSink& warn, int pictures_fd) {
  NPU_TRY(const SplitFolders splits, find_splits(job.data.path));
  NPU_TRY(ImageFolder train, ImageFolder::scan(splits.train));
  NPU_TRY(ImageFolder val, ImageFolder::scan(splits.val));
  if (const auto difference = class_table_difference(train.classes(), val.classes());
      !difference.empty()) {
    return fail(Code::kFailedPrecondition,
                "open data '{}': '{}' {}, compared with '{}'; labels would be shifted, so both "
                "need the same folders",
                job.data.path, splits.val, difference, splits.train);
  }
  NPU_TRY_VOID(check_classes(job, train.classes().size(), splits.train));
  NPU_TRY_VOID(normalization_of(job.data, kImagenet, 3));
  Data data;
  data.classes = train.classes();
  data.description = fmt::format("image folder {}, {} classes, {} train + {} val", job.data.path,
                                 data.classes.size(), train.size(), val.size());
  std::optional<PictureCache> train_cache, val_cache;
  if (job.data.cache_bytes > 0) {
    NPU_TRY(const auto memory,
            PictureMemory::open(pictures_fd, train.size() + val.size(), job.data.cache_bytes));
    train_cache.emplace(memory, 0);
    val_cache.emplace(memory, train.size());
  }
  data.train = open_folder(std::move(train), job, true, std::move(train_cache), warn);
  data.val = open_folder(std::move(val), job, false, std::move(val_cache), warn);
  return data;
}

}  // namespace

InputSize input_size(const config::DataConfig& d, int own) noexcept {
  InputSize size;
  size.crop = d.image_size > 0 ? d.image_size : own;
  const int usual = d.augment == Augment::kImagenet ? size.crop * 256 / 224 : size.crop;
  size.resize = d.val_resize > 0 ? d.val_resize : usual;
  return size;
}

std::unique_ptr<SampleSource> open_folder(ImageFolder folder, const Job& job, bool training,
                                          std::optional<PictureCache> cache,
                                          const WarningSink& warn) {
  const auto normalization =
      normalization_of(job.data, tf_pixels(job) ? kTfImagenet : kImagenet, 3);
  NPU_CHECK(normalization.has_value());  // open_folders looked before
  return std::make_unique<PictureSource>(
      file_pictures(std::move(folder), job.data.exif == config::Exif::kApply, std::move(cache)),
      picture_options(job, kFolderSide, training, *normalization, warn));
}

Result<Data> open_data(const Job& job, const WarningSink& warn, int pictures_fd) {
  return job.data.format == DataFormat::kImageFolder ? open_folders(job, warn, pictures_fd)
                                                     : open_in_memory(job);
}

}  // namespace npu::data
