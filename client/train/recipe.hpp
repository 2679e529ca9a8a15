// What a job asks of the model, in the model's terms: pure functions of the job, tested without a
// device.
#pragma once

#include "client/data/dataset.hpp"
#include "config/job.hpp"
#include "model/network.hpp"

namespace npu::client {

/// The network that one rank plans for images of this shape, with `threads` compute threads.
[[nodiscard]] model::NetworkConfig network_config(const config::Job& job, int threads,
                                                  const data::ImageShape& shape);

}  // namespace npu::client
