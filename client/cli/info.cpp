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

// A daemon that answers, else the one that a running `npu launch` keeps for itself.
Result<std::string> daemon_to_ask(const std::string& named) {
  auto found = client::find_daemon(named);
  if (found || !named.empty()) return found;
  const auto live = client::live_private_daemons();
  if (live.empty()) return found;
  if (live.size() == 1) return live.front().socket;
  std::string sockets;
  for (const auto& instance : live) sockets += ' ' + instance.socket;
  return fail(Code::kFailedPrecondition, "several private daemons run; name one with --socket:{}",
              sockets);
}

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
