// The IDX container (MNIST's format), plain or gzip, read defensively.
// Only unsigned bytes are read; the format's other element types are named and refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::data {

inline constexpr uint64_t kMaxIdxBytes = uint64_t{4} << 30;

struct IdxArray {
  std::string path;
  std::vector<uint32_t> dims;  // dims[0] items
  std::vector<uint8_t> bytes;  // product of dims
  std::string md5;             // of the uncompressed file, 32 hex digits
};

/// Reads `path`, which must hold unsigned bytes with `rank` dimensions (3 = images, 1 = labels).
/// Errors: not_found, exit 66; data_loss, exit 65: wrong magic, type or rank, empty, truncated,
/// trailing bytes, damaged gzip. Memory: grows with what is really there; a forged header allocates
/// nothing. Source: byte order and types as in Yann LeCun's description of the format.
[[nodiscard]] Result<IdxArray> read_idx(const std::string& path, uint32_t rank);

}  // namespace npu::data
