#include "client/cli/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "client/api/admin.hpp"
#include "client/launch/fault_code.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {

namespace {

// Set while the command line is parsed, before anything else runs.
int level = 0;

void set_level(int value) {
  level =
      std::clamp(value, static_cast<int>(Verbosity::kQuiet), static_cast<int>(Verbosity::kDebug));
  // What is said of it in NPU_LOG counts more.
  if (level == static_cast<int>(Verbosity::kDebug)) ::setenv("NPU_LOG", "info", 0);
}

void write_stderr(const std::string& text) {
  // Nobody is left to tell when stderr does not work.
  (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)), "stderr");
}

}  // namespace

Verbosity verbosity() noexcept { return static_cast<Verbosity>(level); }

void say(Verbosity from, std::string_view command, std::string_view text) {
  if (verbosity() >= from) write_stderr(fmt::format("npu {}: {}\n", command, text));
}

int report_error(std::string_view command, const Error& error) {
  // The loader's diagnostics carry file, line and caret already.
  const bool diagnostics =
      error.exit == Exit::kBadConfig && error.message.find('\n') != std::string::npos;
  const client::FaultCode* fault =
      client::fault_code(code_name(error.code), static_cast<int>(error.exit), error.message);
  const std::string code = fault != nullptr ? fmt::format(" [{}]", fault->code) : "";
  const std::string text = diagnostics
                               ? error.message + '\n'
                               : fmt::format("npu {}: error: {}{}\n", command, error.message, code);
  write_stderr(text);
  return static_cast<int>(error.exit);
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("--set", overrides,
                 "Override one key of the job, e.g. train.epochs=1; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

namespace {

template <typename Value>
void add_choice(CLI::App& app, const char* name, Value& value, const char* about,
                const std::vector<std::pair<std::string, Value>>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  const auto pick = [&value, choices, names, name](const std::string& text) {
    for (const auto& choice : choices) {
      if (choice.first == text) {
        value = choice.second;
        return;
      }
    }
    throw CLI::ValidationError(name,
                               fmt::format("'{}' is none of {}", text, fmt::join(names, ", ")));
  };
  app.add_option_function<std::string>(name, pick, about)
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
}

}  // namespace

void add_format(CLI::App& app, Format& format) {
  add_choice(app, "-o,--output", format,
             "What stdout holds: text for people, json for programs (stable)",
             {{"text", Format::kText}, {"json", Format::kJson}});
}

void add_trace_format(CLI::App& app, Format& format) {
  add_choice(app, "-o,--output", format,
             "What stdout holds: text for people, json for programs (stable), with --trace also "
             "chrome: for chrome://tracing or Perfetto",
             {{"text", Format::kText}, {"json", Format::kJson}, {"chrome", Format::kChrome}});
}

void add_global_options(CLI::App& app) {
  constexpr const char* kGroup = "Options of every command";
  app.add_option_function<std::string>(
         "--color", [](const std::string& when) { ::setenv("NPU_COLOR", when.c_str(), 1); },
         "auto: on a terminal, unless NO_COLOR is set; always; never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->group(kGroup);
  app.add_flag_function(
         "-q,--quiet", [](int64_t) { set_level(-1); }, "Errors only on stderr")
      ->group(kGroup);
  app.add_flag_function(
         "-v,--verbose",
         [](int64_t times) { set_level(static_cast<int>(std::min<int64_t>(times, 2))); },
         "Say which daemon and folder are used; twice: also what a private daemon logs")
      ->group(kGroup);
  for (CLI::App* sub : app.get_subcommands({})) add_global_options(*sub);
}

void add_daemon_choice(CLI::App& app, client::DaemonChoice& choice) {
  using client::DaemonMode;
  app.add_option(
         "--socket", choice.socket,
         "The daemon's socket; otherwise NPUD_SOCKET, the runtime directory, /run/npud/npud.sock")
      ->type_name("PATH");
  add_choice(app, "--daemon", choice.mode,
             "auto: use one that answers, else start a private one; require: never start one; "
             "private: always start one",
             {{"auto", DaemonMode::kAuto},
              {"require", DaemonMode::kRequire},
              {"private", DaemonMode::kPrivate}});
  app.add_option("--state-dir", choice.state_dir, "Where a private daemon keeps checkpoints")
      ->type_name("DIR");
}

Result<std::string> daemon_to_ask(const std::string& named) {
  auto found = client::find_daemon(named);
  if (found || !named.empty()) return found;
  // One that answers but refuses must be named, not replaced.
  if (found.error().code != Code::kUnavailable) return found;
  const auto live = client::live_private_daemons();
  if (live.empty()) return found;
  if (live.size() == 1) return live.front().socket;
  std::string sockets;
  for (const auto& instance : live) sockets += ' ' + instance.socket;
  return fail(Code::kFailedPrecondition, "several private daemons run; name one with --socket:{}",
              sockets);
}

Result<std::vector<std::string>> daemons_to_ask(const std::string& named) {
  auto found = client::find_daemon(named);
  if (!found && (!named.empty() || found.error().code != Code::kUnavailable)) {
    return tl::make_unexpected(std::move(found.error()));
  }
  std::vector<std::string> sockets;
  if (found) sockets.push_back(*found);
  if (!named.empty()) return sockets;
  for (const auto& instance : client::live_private_daemons()) {
    if (!found || instance.socket != *found) sockets.push_back(instance.socket);
  }
  if (sockets.empty()) return tl::make_unexpected(std::move(found.error()));
  return sockets;
}

Result<void> print(std::string_view text) {
  auto written = write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "stdout");
  // `npu ... | head` got what it wanted.
  if (!written && written.error().code == Code::kUnavailable) return {};
  return written;
}

}  // namespace npu::cli
