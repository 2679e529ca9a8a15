// What gnuplot is told to draw the curves of some runs. Pure text, no I/O.
#pragma once

#include <string>
#include <vector>

#include "client/record/curves.hpp"

namespace npu::client {

enum class PlotForm : uint8_t { kText, kPng, kSvg };

struct PlotOptions {
  PlotForm form = PlotForm::kText;
  std::vector<std::string> metrics;  // columns of steps.csv, one diagram each
  int columns = 80, rows = 24;       // of one diagram as text
};

/// A script whose output goes to stdout: for each metric one diagram over the global step with a
/// line a run, and one for its validation where epochs.csv has it. Whatever a run is called is
/// quoted. Errors: invalid_argument naming the columns there are (no run has the metric);
/// not_found (no values).
[[nodiscard]] Result<std::string> plot_script(const std::vector<RunCurves>& runs,
                                              const PlotOptions& options);

}  // namespace npu::client
