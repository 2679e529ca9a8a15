#include "client/record/curves.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "client/record/rows.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {
namespace {

constexpr uint64_t kFileLimit = uint64_t{1} << 30;

std::string_view next_part(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

std::optional<double> number(std::string_view text) {
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::vector<double>> parse_row(std::string_view line, size_t columns) {
  std::vector<double> row;
  row.reserve(columns);
  // A line that ends in a comma has one more cell, an empty one.
  for (bool more = true; more;) {
    more = line.find(',') != std::string_view::npos;
    const auto value = number(next_part(line, ','));
    if (!value || row.size() == columns) return std::nullopt;
    row.push_back(*value);
  }
  if (row.size() != columns) return std::nullopt;
  return row;
}

void take_back(Table& table, std::string_view marker) {
  const int column = table.column("step");
  int64_t next = 0;
  const auto parsed = std::from_chars(marker.data(), marker.data() + marker.size(), next);
  if (column < 0 || parsed.ec != std::errc()) return;
  std::erase_if(table.rows, [&](const std::vector<double>& row) {
    return !(row[static_cast<size_t>(column)] < static_cast<double>(next));
  });
}

Curve thinned(const Curve& all, size_t most) {
  Curve out;
  for (size_t i = 0; i < most; ++i) {
    const size_t begin = i * all.size() / most, end = (i + 1) * all.size() / most;
    Point mean;
    for (size_t k = begin; k < end; ++k) {
      mean.step += all[k].step;
      mean.value += all[k].value;
    }
    const auto n = static_cast<double>(end - begin);
    out.push_back({mean.step / n, mean.value / n});
  }
  return out;
}

}  // namespace

int Table::column(std::string_view name) const {
  const auto found = std::ranges::find(columns, name);
  return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
}

Table parse_table(std::string_view text) {
  Table table;
  std::string_view header = next_part(text, '\n');
  while (!header.empty()) table.columns.emplace_back(next_part(header, ','));
  while (!text.empty()) {
    const std::string_view line = next_part(text, '\n');
    if (line.starts_with(kRestartPrefix)) {
      take_back(table, line.substr(kRestartPrefix.size()));
    } else if (auto row = parse_row(line, table.columns.size())) {
      table.rows.push_back(std::move(*row));
    }
  }
  return table;
}

Curve curve_of(const Table& table, std::string_view column, size_t most) {
  const int x = table.column("step"), y = table.column(column);
  if (x < 0 || y < 0) return {};
  Curve curve;
  for (const std::vector<double>& row : table.rows) {
    const Point point{row[static_cast<size_t>(x)], row[static_cast<size_t>(y)]};
    if (std::isfinite(point.step) && std::isfinite(point.value)) curve.push_back(point);
  }
  return curve.size() > most ? thinned(curve, most) : curve;
}

Result<RunCurves> read_curves(const std::string& folder, const std::string& name) {
  RunCurves run{.name = name, .steps = {}, .epochs = {}};
  const auto steps = read_file(folder + "/steps.csv", kFileLimit);
  if (!steps && steps.error().code == Code::kNotFound) {
    return fail(Code::kNotFound,
                "run '{}': no curves in '{}'; `npu launch` writes steps.csv there, --dir names "
                "another place",
                name, folder);
  }
  if (!steps) return tl::make_unexpected(steps.error());
  run.steps = parse_table(*steps);
  const auto epochs = read_file(folder + "/epochs.csv", kFileLimit);
  if (epochs) {
    run.epochs = parse_table(*epochs);
  } else if (epochs.error().code != Code::kNotFound) {
    return tl::make_unexpected(epochs.error());
  }
  return run;
}

}  // namespace npu::client
