// The families, a group a function. docs/operations.md is where people look them up; a test compares.
#pragma once

#include "daemon/metrics/exposition.hpp"
#include "daemon/metrics/view.hpp"

namespace npu::daemon {

void collect_process(const MetricsView& view, Exposition& out);
void collect_control(const MetricsView& view, Exposition& out);
void collect_devices(const MetricsView& view, Exposition& out);
void collect_collectives(const MetricsView& view, Exposition& out);
void collect_runs(const MetricsView& view, Exposition& out);
void collect_checkpoints(const MetricsView& view, Exposition& out);
void collect_ascend(const MetricsView& view, Exposition& out);

}  // namespace npu::daemon
