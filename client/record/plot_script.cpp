#include "client/record/plot_script.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::client {
namespace {

constexpr size_t kMostPoints = 2000;  // a curve; more than a picture has pixels

/// One line of a diagram.
struct Line {
  std::string title;
  Curve curve;
  bool validation = false;
  size_t run = 0;
};

// Inside single quotes gnuplot gives a meaning to the quote alone.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '\'';
}

std::string label_of(const std::string& metric) {
  if (metric == "loss") return "loss (nats)";
  if (metric.starts_with("acc")) return metric + " (%)";
  if (metric == "img_s") return "images/s";
  if (metric.ends_with("_s")) return metric.substr(0, metric.size() - 2) + " (s)";
  return metric;
}

std::vector<Line> lines_of(const std::vector<RunCurves>& runs, const std::string& metric) {
  std::vector<Line> lines;
  for (size_t i = 0; i < runs.size(); ++i) {
    Curve train = curve_of(runs[i].steps, metric, kMostPoints);
    Curve val = curve_of(runs[i].epochs, "val_" + metric, kMostPoints);
    const std::string kind = val.empty() ? "" : " train";
    if (!train.empty()) lines.push_back({runs[i].name + kind, std::move(train), false, i});
    if (!val.empty()) lines.push_back({runs[i].name + " val", std::move(val), true, i});
  }
  return lines;
}

Result<void> check_metric(const std::vector<RunCurves>& runs, const std::string& metric) {
  for (const RunCurves& run : runs) {
    if (run.steps.column(metric) >= 0) return {};
  }
  return fail(Code::kInvalidArgument, "metric '{}' is none of {}", metric,
              fmt::join(runs.empty() ? std::vector<std::string>() : runs[0].steps.columns, ", "));
}

std::string terminal_of(const PlotOptions& options) {
  const auto diagrams = options.metrics.size();
  switch (options.form) {
    case PlotForm::kPng:
      return fmt::format("set terminal pngcairo size 900,{} noenhanced\n", 320 * diagrams);
    case PlotForm::kSvg:
      return fmt::format("set terminal svg size 900,{} noenhanced background 'white'\n",
                         320 * diagrams);
    case PlotForm::kText:
      break;
  }
  return fmt::format("set terminal dumb size {},{} noenhanced\n", options.columns, options.rows);
}

std::string data_block(const std::string& name, const Curve& curve) {
  std::string text = fmt::format("${} << EOD\n", name);
  for (const Point& p : curve) text += fmt::format("{:.10g} {:.6g}\n", p.step, p.value);
  return text + "EOD\n";
}

// A run keeps its colour; what is validated is thicker and has marks.
std::string style_of(const Line& line, PlotForm form) {
  if (form == PlotForm::kText) return line.validation ? "with points" : "with lines";
  return line.validation
             ? fmt::format("with linespoints linecolor {} linewidth 2 pointtype 7 pointsize 0.5",
                           line.run + 1)
             : fmt::format("with lines linecolor {} linewidth 1", line.run + 1);
}

}  // namespace

Result<std::string> plot_script(const std::vector<RunCurves>& runs, const PlotOptions& options) {
  std::string data, plots;
  for (const std::string& metric : options.metrics) {
    NPU_TRY_VOID(check_metric(runs, metric));
    const std::vector<Line> lines = lines_of(runs, metric);
    if (lines.empty()) {
      return fail(Code::kNotFound, "plot '{}': no step has been recorded yet", metric);
    }
    std::string plot;
    for (const Line& line : lines) {
      // Data blocks are numbered: a metric's or a run's name need not be an identifier.
      const std::string name = fmt::format("curve{}", std::ranges::count(data, '$'));
      data += data_block(name, line.curve);
      plot += fmt::format("{}${} using 1:2 {} title {}", plot.empty() ? "plot " : ", ", name,
                          style_of(line, options.form), quoted(line.title));
    }
    // As text there is no room for a label at the side.
    plots += fmt::format("set {} {}\n{}\n", options.form == PlotForm::kText ? "title" : "ylabel",
                         quoted(label_of(metric)), plot);
  }
  std::string script = terminal_of(options) + data;
  script += "set grid\nset xlabel 'step'\nset key outside top center horizontal\n";
  if (options.form == PlotForm::kText) return script + plots;
  return script + fmt::format("set multiplot layout {},1\n", options.metrics.size()) + plots +
         "unset multiplot\n";
}

}  // namespace npu::client
