// Reads Prometheus' text format strictly and judges names as `promtool check metrics` does, and a few rules of ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace npu::test {

struct Sample {
  std::string name;  // of the series: with _bucket, _sum, _count
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct MetricFamily {
  std::string type, help;
  std::vector<Sample> samples;
};

struct Exposed {
  std::map<std::string, MetricFamily> families;
  std::vector<std::string> problems;  // each with the line or the name; empty: all is well

  /// The only series with at least these labels; nothing if there is none.
  [[nodiscard]] std::optional<double> value(const std::string& name,
                                            const std::map<std::string, std::string>& labels = {}) const;
  /// The sum of all series with at least these labels; 0 if there is none.
  [[nodiscard]] double sum(const std::string& name, const std::map<std::string, std::string>& labels = {}) const;
  [[nodiscard]] size_t series() const;
};

[[nodiscard]] Exposed read_exposition(const std::string& text);

}  // namespace npu::test
