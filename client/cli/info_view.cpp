#include "client/cli/info_view.hpp"

#include <fmt/format.h>

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

bool busy(const client::DeviceInfo& device) { return !device.run.empty(); }

std::string state_of(const DeviceState& d) { return d.stalled ? "stall" : d.device.state; }

/// Padded before it is coloured: sequences take no column.
std::string alarming(const std::string& text, size_t width, bool alarm, bool colour) {
  const std::string cell = fmt::format("{:<{}.{}}", text, width, width);
  return alarm && colour ? "\x1b[1;31m" + cell + "\x1b[0m" : cell;
}

std::string or_na(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "NA";
}

/// At most six characters.
std::string count_of(uint64_t n) {
  if (n < 1'000'000) return fmt::format("{}", n);
  return n < 1'000'000'000 ? fmt::format("{:.1f}M", static_cast<double>(n) * 1e-6)
                           : fmt::format("{:.1f}G", static_cast<double>(n) * 1e-9);
}

std::string device_row(const DeviceState& state, bool colour) {
  const client::DeviceInfo& d = state.device;
  const bool used = busy(d);
  return fmt::format("| {:<4} {:<8} | {} {} | {:>5} {:>9} / {:<6} | {:<6}{:>7} |\n", d.id, "emu-v1",
                     alarming(state.stalled ? "WARN" : "OK", 7, state.stalled, colour),
                     alarming(upper(state_of(state)), 7, state.stalled, colour),
                     or_na(state.process_percent, 0), mib(d.memory_used_bytes),
                     mib(d.memory_total_bytes), used ? count_of(d.collectives) : "-",
                     used ? or_na(state.wait_s, 1) : "-");
}

std::string device_table(const InfoState& state, bool colour) {
  const std::string columns =
      "+---------------+-----------------+--------------------------+---------------+\n";
  std::string heavy = columns;
  for (char& c : heavy) c = c == '-' ? '=' : c;
  std::string text = columns;
  text +=
      "| NPU  Name     | Health  State   | Core%    Mem-Usage(MiB)  | Ops   Wait(s) |\n" + heavy;
  for (const DeviceState& device : state.devices) text += device_row(device, colour);
  return text + columns;
}

std::string process_table(const InfoState& state) {
  std::string text = row(fmt::format(" {:<4} {:<5} {:<8} {:<27} {:<16} {:>9} ", "NPU", "Rank",
                                     "PID", "Run", "Process", "Mem(MiB)"));
  text += rule('=');
  size_t shown = 0;
  for (const DeviceState& device : state.devices) {
    const client::DeviceInfo& d = device.device;
    if (!busy(d)) continue;
    text +=
        row(fmt::format(" {:<4} {:<5} {:<8} {:<27.27} {:<16.16} {:>9} ", d.id, d.rank, d.pid, d.run,
                        device.process.empty() ? "NA" : device.process, mib(d.memory_used_bytes)));
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

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json device_json(const DeviceState& state) {
  const client::DeviceInfo& d = state.device;
  Json out = {{"id", d.id},
              {"state", state_of(state)},
              {"health", state.stalled ? "warn" : "ok"},
              {"memory_total_bytes", d.memory_total_bytes},
              {"memory_used_bytes", d.memory_used_bytes}};
  out["run"] = busy(d) ? Json(d.run) : Json(nullptr);
  out["rank"] = d.rank >= 0 ? Json(d.rank) : Json(nullptr);
  out["pid"] = d.pid > 0 ? Json(d.pid) : Json(nullptr);
  out["uid"] = d.uid >= 0 ? Json(d.uid) : Json(nullptr);
  out["process"] = state.process.empty() ? Json(nullptr) : Json(state.process);
  out["process_percent"] = number_or_null(state.process_percent);
  out["collectives"] = busy(d) ? Json(d.collectives) : Json(nullptr);
  out["wait_s"] = number_or_null(state.wait_s);
  return out;
}

Json run_json(const client::RunInfo& r) {
  return {{"name", r.name},
          {"state", r.state},
          {"world", r.world},
          {"joined", r.joined},
          {"generation", r.generation},
          {"uid", r.uid},
          {"collectives", r.collectives},
          {"failed_checkpoints", r.failed_checkpoints},
          {"last_error", r.last_error}};
}

std::string line_of(const Json& out) {
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string info_table(const InfoState& state, bool colour) {
  std::string text = rule('-');
  text += row(fmt::format(" npu {:<20} npud {:<20} {:>23} ", client::kVersion, state.daemon.version,
                          "emulated: no power/temp"));
  text += device_table(state, colour) + process_table(state);
  for (const auto& run : state.daemon.runs) {
    text += fmt::format("run '{}': {}, {} of {} ranks, {} collectives{}{}\n", run.name, run.state,
                        run.joined, run.world, run.collectives, failed_checkpoints(run),
                        run.last_error.empty() ? "" : "; " + run.last_error);
  }
  return text;
}

std::string info_json(const InfoState& state, double time) {
  Json devices = Json::array(), runs = Json::array();
  for (const DeviceState& device : state.devices) devices.push_back(device_json(device));
  for (const client::RunInfo& run : state.daemon.runs) runs.push_back(run_json(run));
  const client::DaemonInfo& d = state.daemon;
  return line_of({{"schema", 1},
                  {"devices", devices},
                  {"runs", runs},
                  {"warnings", state.warnings},
                  {"daemon",
                   {{"version", d.version},
                    {"pid", d.pid},
                    {"socket", d.socket},
                    {"engine_threads", d.engine_threads}}},
                  {"time", time}});
}

std::string info_error_json(const Error& error, double time) {
  return line_of({{"schema", 1},
                  {"devices", Json::array()},
                  {"runs", Json::array()},
                  {"warnings", Json::array()},
                  {"daemon", nullptr},
                  {"time", time},
                  {"error", error.message}});
}

}  // namespace npu::cli
