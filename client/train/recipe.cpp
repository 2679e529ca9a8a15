#include "client/train/recipe.hpp"

namespace npu::client {

model::NetworkConfig network_config(const config::Job& job, int threads,
                                    const data::ImageShape& shape) {
  model::NetworkConfig c;
  c.arch = job.model.arch;
  c.num_classes = job.model.num_classes;
  c.channels = shape.channels;
  c.height = shape.height;
  c.width = shape.width;
  c.batch = job.rank_batch();
  c.zero_init_residual = job.model.zero_init_residual;
  c.label_smoothing = static_cast<float>(job.train.label_smoothing);
  c.threads = threads;
  c.bucket_bytes = job.collectives.bucket_bytes;
  return c;
}

}  // namespace npu::client
