// What is inside the files of CIFAR's binary version: records of labels and planes, and lists of
// class names. Knows no paths and opens nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/data/class_table.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

inline constexpr int kCifarSide = 32;

/// One file: `records` times label bytes, the label at `label_at`, then three planes.
struct CifarRecords {
  size_t label_bytes = 1, label_at = 0;
  int classes = 10;
  size_t records = 0;
};

/// Appends all records, pixels with the channels innermost. `path` names the file in messages.
/// Errors: data_loss (another length); failed_precondition (a label outside the classes); nothing
/// that was appended before the error is of use.
[[nodiscard]] Result<void> append_cifar(const std::string& path, std::span<const uint8_t> bytes,
                                        const CifarRecords& layout, std::vector<uint8_t>& pixels,
                                        std::vector<int32_t>& labels);

/// One name a line; empty lines and blanks at the end do not count. An empty text has no names.
/// Errors: failed_precondition when there are any, and not `classes`.
[[nodiscard]] Result<ClassTable> parse_class_names(const std::string& path, std::string_view text,
                                                   int classes);

}  // namespace npu::data
