// The npu program: names its subcommands, parses the line, runs one of them. sysexits(3) codes
// throughout.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "client/cli/command.hpp"
#include "client/version.hpp"
#include "config/diagnostics.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::cli {
namespace {

// A subcommand that comes later is one file and one line here.
constexpr void (*kCommands[])(CLI::App&, Action&) = {
    add_launch, add_eval, add_train,  add_info,  add_ps,      add_logs,     add_stop,
    add_ckpt,   add_plot, add_config, add_bench, add_metrics, add_help_tree};

constexpr const char* kAbout =
    "Train on the emulated NPUs of this host.\n"
    "\n"
    "Examples:\n"
    "  npu launch config/jobs/resnet20-fashion-mnist.yaml\n"
    "  npu launch job.yaml --set train.epochs=1 -o json > metrics.jsonl\n"
    "  npu eval job.yaml --checkpoint best\n"
    "  npu info\n"
    "  npu ps\n"
    "  npu logs resnet20-fashion-mnist -f\n"
    "  npu stop resnet20-fashion-mnist\n"
    "  npu plot resnet20-fashion-mnist --to curves.png\n"
    "  npu ckpt ls\n";

// "npu launch" for an error inside launch: the deepest subcommand that was named.
std::string command_of(const CLI::App& app) {
  std::string name = app.get_name();
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += ' ' + at->get_name();
  }
  return name;
}

// In a list of subcommands only the first line of what each says about itself.
class ShortList : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string about = sub->get_description();
    return fmt::format("  {:<10} {}\n", sub->get_name(), about.substr(0, about.find('\n')));
  }
};

// CLI11 takes a mistyped subcommand for a missing one.
std::optional<int> unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == argv[1]) return std::nullopt;
    const bool hidden = sub->get_group().empty();
    if (!hidden) names.push_back(sub->get_name());
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view near = config::closest(argv[1], candidates);
  fmt::print(stderr, "npu: error: no subcommand {}; {}\n", config::quoted(argv[1]),
             near.empty() ? fmt::format("one of: {}", fmt::join(names, ", "))
                          : fmt::format("did you mean '{}'?", near));
  return static_cast<int>(Exit::kUsage);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string command = command_of(app);
  std::string what = error.what();
  while (what.ends_with('\n') || what.ends_with('.')) what.pop_back();
  fmt::print(stderr, "{}: error: {}; see `{} --help`\n", command, what, command);
  return static_cast<int>(Exit::kUsage);
}

int run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a write says EPIPE, which the writer can handle
  if (const auto armed = failpoint::arm_from_environment(); !armed) {
    fmt::print(stderr, "npu: error: {}\n", armed.error().message);
    return static_cast<int>(armed.error().exit);
  }
  CLI::App app(kAbout, "npu");
  app.set_version_flag("--version", std::string("npu ") + client::kVersion);
  app.require_subcommand(1);
  Action chosen;
  app.formatter(std::make_shared<ShortList>());  // inherited by the subcommands
  for (const auto add : kCommands) add(app, chosen);
  add_global_options(app);
  if (const auto code = unknown_command(app, argc, argv)) return *code;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version arrive as exceptions with exit code 0.
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error);
  }
  return chosen(argv);
}

}  // namespace
}  // namespace npu::cli

int main(int argc, char** argv) { return npu::cli::run(argc, argv); }
