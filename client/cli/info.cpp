// npu info: the devices of a daemon and who uses them.
#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/info_view.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Show the devices of the daemon, the runs on them and their processes.\n"
    "\n"
    "Examples:\n"
    "  npu info\n"
    "  npu info -o json | jq -r '.devices[] | select(.state == \"idle\") | .id'\n";

struct Options {
  std::string socket;
  Format format = Format::kText;
};

Result<void> show(const Options& options) {
  NPU_TRY(const std::string socket, daemon_to_ask(options.socket));
  NPU_TRY(const client::DaemonInfo info, client::query_info(socket));
  return print(options.format == Format::kJson ? info_json(info) : info_table(info));
}

}  // namespace

void add_info(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("info", "Show devices, runs and processes");
  command->description(kAbout);
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  add_format(*command, options->format);
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto shown = show(*options);
      return shown ? 0 : report_error("info", shown.error());
    };
  });
}

}  // namespace npu::cli
