#include "client/cli/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "client/api/admin.hpp"
#include "client/launch/fault_code.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {

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
  // Nobody is left to tell when stderr does not work.
  (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)), "stderr");
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
  const auto live = client::live_private_daemons();
  if (live.empty()) return found;
  if (live.size() == 1) return live.front().socket;
  std::string sockets;
  for (const auto& instance : live) sockets += ' ' + instance.socket;
  return fail(Code::kFailedPrecondition, "several private daemons run; name one with --socket:{}",
              sockets);
}

Result<void> print(std::string_view text) {
  auto written = write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "stdout");
  // `npu ... | head` got what it wanted.
  if (!written && written.error().code == Code::kUnavailable) return {};
  return written;
}

}  // namespace npu::cli
