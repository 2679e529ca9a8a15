#include "daemon/metrics/exposition.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

namespace npu::daemon {

struct Exposition::Impl {
  std::vector<prometheus::MetricFamily> families;
};

namespace {

prometheus::ClientMetric labelled(const MetricLabels& labels) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({std::string(name), value});
  return metric;
}

}  // namespace

Exposition::Exposition() : impl_(std::make_unique<Impl>()) {}
Exposition::~Exposition() = default;

Exposition::Family Exposition::family(Kind kind, std::string_view name, std::string_view help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = kind == Kind::kCounter ? prometheus::MetricType::Counter
                : kind == Kind::kGauge ? prometheus::MetricType::Gauge
                                       : prometheus::MetricType::Histogram;
  impl_->families.push_back(std::move(family));
  return {*this, impl_->families.size() - 1};
}

Exposition::Family Exposition::counter(std::string_view name, std::string_view help) {
  return family(Kind::kCounter, name, help);
}

Exposition::Family Exposition::gauge(std::string_view name, std::string_view help) {
  return family(Kind::kGauge, name, help);
}

Exposition::Family Exposition::histogram(std::string_view name, std::string_view help) {
  return family(Kind::kHistogram, name, help);
}

void Exposition::Family::add(const MetricLabels& labels, double value) {
  prometheus::MetricFamily& family = owner_.impl_->families[index_];
  prometheus::ClientMetric metric = labelled(labels);
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

void Exposition::Family::add(const MetricLabels& labels, const Histogram& histogram) {
  prometheus::ClientMetric metric = labelled(labels);
  // The count is that of these very buckets, whatever the writer adds meanwhile.
  uint64_t below = 0;
  const Histogram::Counts counts = histogram.counts();
  for (size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const double bound = i < Histogram::kBounds ? static_cast<double>(Histogram::bound_ns(i)) / 1e9
                                                : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({below, bound});
  }
  metric.histogram.sample_count = below;
  metric.histogram.sample_sum = static_cast<double>(histogram.sum_ns()) / 1e9;
  owner_.impl_->families[index_].metric.push_back(std::move(metric));
}

std::string Exposition::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->families);
  return std::move(out).str();
}

}  // namespace npu::daemon
