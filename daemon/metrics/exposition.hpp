// Families of metrics and their text as Prometheus reads it. The only file that knows prometheus-cpp is exposition.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/counters.hpp"

namespace npu::daemon {

/// Names are ours; values may be any UTF-8 text and are escaped.
using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

/// Invariants: (1) a family appears with help and type although it has no series, so that its name can be looked up;
/// (2) families and series keep the order in which they were added. Thread: one.
class Exposition {
 public:
  enum class Kind : uint8_t { kCounter, kGauge, kHistogram };

  class Family {
   public:
    void add(const MetricLabels& labels, double value);
    void add(const MetricLabels& labels, const Histogram& histogram);  // kHistogram only; in seconds

   private:
    friend class Exposition;
    Family(Exposition& owner, size_t index) noexcept : owner_(owner), index_(index) {}
    Exposition& owner_;
    size_t index_;
  };

  Exposition();
  ~Exposition();
  Exposition(const Exposition&) = delete;
  Exposition& operator=(const Exposition&) = delete;

  Family counter(std::string_view name, std::string_view help);
  Family gauge(std::string_view name, std::string_view help);
  Family histogram(std::string_view name, std::string_view help);

  /// Text format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] Family family(Kind kind, std::string_view name, std::string_view help);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::daemon
