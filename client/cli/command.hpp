// The frame of a subcommand: one function registers it, one action runs after the whole line is
// parsed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/launch.hpp"
#include "shm/base/error.hpp"

namespace CLI {
class App;
}

namespace npu::cli {

/// Runs the chosen subcommand and returns the program's exit code. `argv` is main's.
using Action = std::function<int(char** argv)>;

/// Adds a subcommand to `app`; when it was the one named on the command line it sets `chosen`.
/// What CLI11 throws while parsing is caught in main.cpp. Options live as long as `app`.
void add_launch(CLI::App& app, Action& chosen);
void add_train(CLI::App& app, Action& chosen);
void add_info(CLI::App& app, Action& chosen);
void add_ckpt(CLI::App& app, Action& chosen);
void add_config(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_plot(CLI::App& app, Action& chosen);
void add_ps(CLI::App& app, Action& chosen);
void add_metrics(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
/// Walks `app` when it runs, so it sees what was added after it, too.
void add_help_tree(CLI::App& app, Action& chosen);
void add_logs(CLI::App& app, Action& chosen);
void add_stop(CLI::App& app, Action& chosen);

/// --color, -q and -v, for `app` and every subcommand in it; they take effect while the line is
/// parsed. --color becomes NPU_COLOR in the environment, which ranks and private daemons inherit.
void add_global_options(CLI::App& app);

/// What stderr holds; the program's only log level. kQuiet: errors. kNormal: warnings and remarks,
/// too. kVerbose: which daemon, folder and process a command works with. kDebug: also what a
/// private daemon logs.
enum class Verbosity : int8_t { kQuiet = -1, kNormal = 0, kVerbose = 1, kDebug = 2 };
[[nodiscard]] Verbosity verbosity() noexcept;
/// "npu launch: ...", to stderr, from that level on.
void say(Verbosity from, std::string_view command, std::string_view text);

/// Prints "npu launch: error: ... [EI0001]" to stderr (diagnostics of a configuration file as they
/// are) and returns the exit code of the error.
int report_error(std::string_view command, const Error& error);

enum class Format : uint8_t { kText, kJson, kChrome };

/// Options that several subcommands share.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides);
void add_format(CLI::App& app, Format& format);
/// With "chrome" as a third choice.
void add_trace_format(CLI::App& app, Format& format);
void add_daemon_choice(CLI::App& app, client::DaemonChoice& choice);

/// The socket of the daemon that answers, else of the one that a running `npu launch` keeps for
/// itself. Errors: unavailable (none); failed_precondition (several private ones).
[[nodiscard]] Result<std::string> daemon_to_ask(const std::string& named);

/// All that may know a run of the caller: the named one alone; else the one that answers, and those
/// that launches keep for themselves. Errors: unavailable (none).
[[nodiscard]] Result<std::vector<std::string>> daemons_to_ask(const std::string& named);

/// To stdout; a reader that went away is not an error. Errors: what write(2) says (a full disk).
[[nodiscard]] Result<void> print(std::string_view text);

}  // namespace npu::cli
