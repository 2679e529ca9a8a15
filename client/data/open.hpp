// Opens what a job's `data` section names, as two sources ready for the loader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/data/class_table.hpp"
#include "client/data/picture_source.hpp"
#include "client/data/source.hpp"
#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

struct Data {
  std::unique_ptr<SampleSource> train, val;  // of one shape
  ClassTable classes;                        // empty where the format has no names
  std::string description;                   // "Fashion-MNIST (digest ok), 60000 train + 10000 val"

  [[nodiscard]] const ImageShape& shape() const noexcept { return train->shape(); }
};

/// `warn` is told of the first image of each kind that cannot be read, from loader threads.
/// Errors: not_found (exit 66) naming every path tried; data_loss or failed_precondition (exit 65)
/// naming the file or folder and what is wrong in it, classes that differ between the splits, and a
/// model.num_classes that is too small; invalid_argument (exit 78) for keys that do not fit the
/// format. Cost: sets in memory are read whole (Fashion-MNIST: 0.6 s, 55 MB), of folders only the
/// names. `pictures_fd`: memory for decoded pictures that ranks share (PictureMemory), -1 = none.
[[nodiscard]] Result<Data> open_data(const config::Job& job, const WarningSink& warn = {},
                                     int pictures_fd = -1);

/// One folder of classes, as the training or the validation half of a job would see it.
[[nodiscard]] std::unique_ptr<SampleSource> open_folder(ImageFolder folder, const config::Job& job,
                                                        bool training,
                                                        std::optional<PictureCache> cache,
                                                        const WarningSink& warn = {});

/// Sides of the network's input and of the picture it is cut from, with the defaults filled in;
/// `own` is the format's side.
struct InputSize {
  int crop = 0;
  int resize = 0;
};
[[nodiscard]] InputSize input_size(const config::DataConfig& config, int own) noexcept;

}  // namespace npu::data
