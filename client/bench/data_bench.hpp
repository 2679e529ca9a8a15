// How fast a folder of images becomes batches: the loader of a rank, without a network.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/error.hpp"

namespace npu::client {

struct DataBenchOptions {
  std::string path;  // a data set (train and val below it), or one folder of classes
  bool val = false;  // validation's transform, and its split of a data set
  int workers = 1;   // 0 = in the calling thread
  int batch = 64;
  int image_size = 224;
  double seconds = 5;   // timed, at least; whole batches
  int64_t batches = 0;  // timed, instead of seconds; 0 = by seconds
  uint64_t cache_bytes = 0;
};

struct DataBenchResult {
  std::string path;  // of the folder that was read
  uint64_t samples = 0, classes = 0;
  int64_t images = 0;  // timed
  int64_t bad_images = 0;
  double seconds = 0, cpu_seconds = 0;  // of the process
  double img_s = 0, img_cpu_s = 0;      // a second, a second of processor time
};

/// Augmentation imagenet (random resized crop, flip) or its validation counterpart, epoch after
/// epoch, one batch before the clock starts. Images that cannot be read are counted and replaced.
/// Errors: as data::ImageFolder; invalid_argument when there are fewer images than a batch.
[[nodiscard]] Result<DataBenchResult> run_data_bench(const DataBenchOptions& options);

}  // namespace npu::client
