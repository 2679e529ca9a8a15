// What a data folder is, seen from outside: which format, how many classes. Opens no image.
#pragma once

#include <string>

#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::frontend {

struct DataFacts {
  std::string path;  // absolute
  std::string name;  // last part of it, for the run's name
  config::DataFormat format = config::DataFormat::kImageFolder;
  int num_classes = 0;
};

/// A folder with train/ and val/ or test/ (classes are the folders in train/), with IDX files, or
/// with CIFAR's binary batches. Errors: not_found, exit 66, naming what is missing;
/// failed_precondition, exit 66, when train/ has no class folder; unimplemented for TFRecord files.
[[nodiscard]] Result<DataFacts> look_at_data(const std::string& path);

}  // namespace npu::frontend
