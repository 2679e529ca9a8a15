// The classes of a set by name; the index is the label. Two runs agree on labels only if they agree
// on this table.
#pragma once

#include <string>
#include <vector>

namespace npu::data {

using ClassTable = std::vector<std::string>;

/// 16 hex digits over the names and their order; empty for an empty table.
[[nodiscard]] std::string class_table_hash(const ClassTable& table);

/// What `theirs` lacks, has besides, or has in another order than `ours`, in one line for people:
/// "lacks cat, dog; has besides bird". Empty when equal. Long lists are cut.
[[nodiscard]] std::string class_table_difference(const ClassTable& ours, const ClassTable& theirs);

/// "cat, dog, ... and 995 more".
[[nodiscard]] std::string some_names(const std::vector<std::string>& names);

}  // namespace npu::data
