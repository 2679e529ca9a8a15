// The memory limit that collectives are compared with.
#pragma once

namespace npu::client {

/// Bytes a second of a 1:1 read/write stream over buffers much larger than the caches, with
/// `threads` threads: the best of several rounds, since a limit is what nothing disturbs. Cost:
/// about 0.3 s. Source: reference of mem_fraction.
[[nodiscard]] double measure_memory_bandwidth(unsigned threads);

}  // namespace npu::client
