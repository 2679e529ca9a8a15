// The CSV files of a run folder read back as curves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

/// Numbers of a CSV file with a header; a cell that is empty is NaN.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;  // each as long as `columns`

  /// Index of a column, -1 when there is none of that name.
  [[nodiscard]] int column(std::string_view name) const;
};

/// Reads untrusted text. A restart marker takes back the rows whose `step` is at or behind the next
/// one; a row that does not parse is skipped, as are other comments. The first line is the header.
[[nodiscard]] Table parse_table(std::string_view text);

struct Point {
  double step = 0, value = 0;
};
using Curve = std::vector<Point>;

/// Finite values of one column over `step`; empty if there is no such column. More than
/// `most` points are replaced by the means of as many equal stretches.
[[nodiscard]] Curve curve_of(const Table& table, std::string_view column, size_t most);

struct RunCurves {
  std::string name;
  Table steps, epochs;
};

/// Reads `folder`. Errors: not_found naming the folder (no steps.csv); resource_exhausted (a file
/// of more than 1 GiB).
[[nodiscard]] Result<RunCurves> read_curves(const std::string& folder, const std::string& name);

}  // namespace npu::client
