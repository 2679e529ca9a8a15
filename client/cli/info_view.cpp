#include "client/cli/info_view.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "client/version.hpp"

namespace npu::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kInner = 76;  // between the outer borders

std::string rule(char c) { return '+' + std::string(kInner, c) + "+\n"; }
std::string row(const std::string& text) {
  return fmt::format("|{:<{}.{}}|\n", text, kInner, kInner);
}

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

uint64_t mib(uint64_t bytes) { return (bytes + (1u << 20) - 1) >> 20; }

// What ps calls it; a process that is gone or hidden has no name.
std::string process_name(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  return std::getline(file, name) ? name : "NA";
}

bool busy(const client::DeviceInfo& device) { return !device.run.empty(); }

std::string device_table(const client::DaemonInfo& info) {
  const std::string columns =
      "+---------------+-----------------+--------------------------+---------------+\n";
  std::string heavy = columns;
  for (char& c : heavy) c = c == '-' ? '=' : c;
  std::string text = columns;
  text +=
      "| NPU  Name     | Health  State   | Core%    Mem-Usage(MiB)  |   Collectives |\n" + heavy;
  for (const auto& d : info.devices) {
    text += fmt::format("| {:<4} {:<8} | {:<7} {:<7} | {:>5} {:>9} / {:<6} | {:>13} |\n", d.id,
                        "emu-v1", "OK", upper(d.state).substr(0, 7), "NA", mib(d.memory_used_bytes),
                        mib(d.memory_total_bytes), d.collectives);
  }
  return text + columns;
}

std::string process_table(const client::DaemonInfo& info) {
  std::string text = row(fmt::format(" {:<4} {:<5} {:<8} {:<27} {:<16} {:>9} ", "NPU", "Rank",
                                     "PID", "Run", "Process", "Mem(MiB)"));
  text += rule('=');
  size_t shown = 0;
  for (const auto& d : info.devices) {
    if (!busy(d)) continue;
    text += row(fmt::format(" {:<4} {:<5} {:<8} {:<27.27} {:<16.16} {:>9} ", d.id, d.rank, d.pid,
                            d.run, process_name(d.pid), mib(d.memory_used_bytes)));
    ++shown;
  }
  if (shown == 0) text += row(" no process");
  return text + rule('-');
}

std::string failed_checkpoints(const client::RunInfo& run) {
  if (run.failed_checkpoints == 0) return {};
  if (run.failed_checkpoints == 1) return "; its last checkpoint failed";
  return fmt::format("; degraded: its last {} checkpoints failed", run.failed_checkpoints);
}

Json device_json(const client::DeviceInfo& d) {
  Json out = {{"id", d.id},
              {"state", d.state},
              {"memory_total_bytes", d.memory_total_bytes},
              {"memory_used_bytes", d.memory_used_bytes}};
  out["run"] = busy(d) ? Json(d.run) : Json(nullptr);
  out["rank"] = d.rank >= 0 ? Json(d.rank) : Json(nullptr);
  out["pid"] = d.pid > 0 ? Json(d.pid) : Json(nullptr);
  out["uid"] = d.uid >= 0 ? Json(d.uid) : Json(nullptr);
  return out;
}

}  // namespace

std::string info_table(const client::DaemonInfo& info) {
  std::string text = rule('-');
  text += row(fmt::format(" npu {:<20} npud {:<20} {:>23} ", client::kVersion, info.version,
                          "emulated: no power/temp"));
  text += device_table(info) + process_table(info);
  for (const auto& run : info.runs) {
    text += fmt::format("run '{}': {}, {} of {} ranks, {} collectives{}{}\n", run.name, run.state,
                        run.joined, run.world, run.collectives, failed_checkpoints(run),
                        run.last_error.empty() ? "" : "; " + run.last_error);
  }
  return text;
}

std::string info_json(const client::DaemonInfo& info) {
  Json devices = Json::array(), runs = Json::array();
  for (const auto& d : info.devices) devices.push_back(device_json(d));
  for (const auto& r : info.runs) {
    runs.push_back({{"name", r.name},
                    {"state", r.state},
                    {"world", r.world},
                    {"joined", r.joined},
                    {"generation", r.generation},
                    {"uid", r.uid},
                    {"collectives", r.collectives},
                    {"failed_checkpoints", r.failed_checkpoints},
                    {"last_error", r.last_error}});
  }
  const Json out = {{"schema", 1}, {"devices", devices}, {"runs", runs}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace npu::cli
