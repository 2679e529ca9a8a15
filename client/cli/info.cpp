// npu info: the devices of a daemon and who uses them.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/info_view.hpp"
#include "client/cli/info_watch.hpp"
#include "client/render/terminal.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Show the devices of the daemon, the runs on them and their processes.\n"
    "\n"
    "Examples:\n"
    "  npu info\n"
    "  npu info -i 3\n"
    "  npu info --watch                 every 2 s on a screen of its own; Ctrl-C ends it, exit "
    "code 0\n"
    "  npu info --watch=10 -o json      an object a line, every 10 s\n"
    "  npu info -o json | jq -r '.devices[] | select(.state == \"idle\") | .id'\n"
    "\n"
    "Core% is the processor time of the device's process since the refresh before, of one core; "
    "Ops are collectives\nof its run, Wait(s) is how long the others have waited for its rank. "
    "From "
    "10 s on the device is stalled,\nand a warning says where. NA: not known, or not there in an "
    "emulated device.\n";

struct Options {
  std::string socket;
  Format format = Format::kText;
  std::vector<int> devices;
  double watch_s = 0;  // 0: once
};

Result<void> show(const Options& options) {
  InfoProbe probe(options.socket, options.devices);
  if (options.watch_s > 0) {
    return watch_info(probe, options.format, milliseconds(std::llround(1000 * options.watch_s)));
  }
  NPU_TRY(const InfoState state, probe.look());
  say(Verbosity::kVerbose, "info", fmt::format("asked the daemon at '{}'", state.daemon.socket));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  NPU_TRY_VOID(print(options.format == Format::kJson
                         ? info_json(state, std::chrono::duration<double>(now).count())
                         : info_table(state, client::terminal_traits(STDOUT_FILENO).colour)));
  for (const std::string& warning : state.warnings) {
    say(Verbosity::kNormal, "info", "warning: " + warning);
  }
  return {};
}

}  // namespace

void add_info(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("info", "Show devices, runs and processes");
  command->description(kAbout);
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  command->add_option("-i,--id", options->devices, "Only these devices, e.g. 3 or 0,1")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->type_name("ID");
  command->add_option("--watch", options->watch_s, "Refresh every SECONDS (2)")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("SECONDS");
  add_format(*command, options->format);
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto shown = show(*options);
      return shown ? 0 : report_error("info", shown.error());
    };
  });
}

}  // namespace npu::cli
