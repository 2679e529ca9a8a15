#include "client/cli/profile_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace npu::cli {
namespace {

using model::ProfileRow;

double total_seconds(const std::vector<ProfileRow>& rows) {
  double total = 0;
  for (const ProfileRow& row : rows) total += row.seconds;
  return std::max(total, 1e-12);
}

/// In 1e9 a second; 0 for what counts none.
double rate(uint64_t amount, double seconds) {
  return seconds > 0 ? 1e-9 * static_cast<double>(amount) / seconds : 0;
}

std::vector<ProfileRow> by_kind(const std::vector<ProfileRow>& rows) {
  std::array<ProfileRow, model::kKernelKinds> kinds;
  for (const ProfileRow& row : rows) {
    ProfileRow& kind = kinds[static_cast<size_t>(row.kind)];
    kind.kind = row.kind;
    kind.calls += row.calls;
    kind.seconds += row.seconds;
    kind.flops += row.flops;
    kind.bytes += row.bytes;
  }
  std::vector<ProfileRow> seen(kinds.begin(), kinds.end());
  std::erase_if(seen, [](const ProfileRow& row) { return row.seconds <= 0; });
  std::ranges::sort(seen, std::ranges::greater{}, &ProfileRow::seconds);
  return seen;
}

std::string line(const ProfileRow& row, int steps, double total) {
  const double calls = static_cast<double>(row.calls) / steps;
  std::string text = fmt::format("{:<26} {:<17} {:>7.0f} {:>10.3f} {:>6.1f}", row.layer,
                                 model::kernel_kind_name(row.kind), calls,
                                 1e3 * row.seconds / steps, 100 * row.seconds / total);
  text += row.flops > 0 ? fmt::format(" {:>8.1f}", rate(row.flops, row.seconds))
                        : fmt::format(" {:>8}", "-");
  text += row.bytes > 0 ? fmt::format(" {:>8.1f}", rate(row.bytes, row.seconds))
                        : fmt::format(" {:>8}", "-");
  return text + '\n';
}

}  // namespace

std::string profile_text(const std::vector<ProfileRow>& rows, int steps) {
  const std::string head = fmt::format("{:<26} {:<17} {:>7} {:>10} {:>6} {:>8} {:>8}\n", "# layer",
                                       "kernel", "calls", "ms", "%", "GFLOP/s", "GB/s");
  const double total = total_seconds(rows);
  std::string text =
      "#\n# an average step; GB/s: what the kernels read and write, caches "
      "included\n" +
      head;
  for (ProfileRow kind : by_kind(rows)) {
    kind.layer = "all";
    text += line(kind, steps, total);
  }
  text += head;
  for (const ProfileRow& row : rows) {
    if (row.seconds >= 1e-3 * total) text += line(row, steps, total);
  }
  return text;
}

}  // namespace npu::cli
