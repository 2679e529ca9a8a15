// npu ps: the runs of a daemon, and the flight recorder of one of them.
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/ps_view.hpp"
#include "shm/base/clock.hpp"
#include "shm/trace_json.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Show the runs of the daemon, the last that are over included, or the collectives of one.\n"
    "\n"
    "Examples:\n"
    "  npu ps\n"
    "  npu ps -o json | jq -r '.runs[] | select(.state == \"running\") | .name'\n"
    "  npu ps --trace resnet20-fashion-mnist           who arrived when, who is missing\n"
    "  npu ps --trace resnet20-fashion-mnist -o chrome > trace.json\n"
    "  npu ps --trace RUN -o json | jq '.records[] | {seq, straggler, wait_us, run_us}'\n"
    "\n"
    "STEP is the step that every rank has done, TIME counts from the first rank's coming.\n"
    "The daemon keeps the last 4096 collectives of a run, also of the last 8 runs that are over; "
    "when it\n"
    "aborts a run it writes them below its state directory, too, and logs where.\n";

constexpr uint64_t kTableRecords = 20;

struct Options {
  std::string socket;
  std::string run;
  Format format = Format::kText;
  uint64_t last = 0;  // 0: not given
};

Result<std::string> runs_text(const Options& options, const std::string& socket) {
  NPU_TRY(const auto runs, client::list_runs(socket));
  const int64_t now = std::time(nullptr);
  return options.format == Format::kJson ? runs_json(runs, now) : runs_table(runs, now);
}

Result<std::string> trace_text(const Options& options, const std::string& socket) {
  const bool table = options.format == Format::kText;
  const uint64_t limit = options.last != 0 ? options.last
                         : table           ? kTableRecords
                                           : uint64_t{shm::kTraceSlots};
  NPU_TRY(const client::Trace trace, client::read_run_trace(socket, options.run, limit));
  // What a run that is over left unfinished stays unfinished.
  const uint64_t now = trace.state == "running" ? now_ns() : 0;
  if (table) return trace_table(trace, now);
  const shm::TraceHead head{.run = trace.run,
                            .generation = trace.generation,
                            .state = trace.state,
                            .error = trace.last_error,
                            .opened = trace.snapshot.opened,
                            .skipped = trace.snapshot.torn + trace.snapshot.bad,
                            .now_ns = now};
  const auto& records = trace.snapshot.records;
  return options.format == Format::kJson ? shm::trace_json(head, records)
                                         : shm::trace_chrome(head, records);
}

Result<void> show(const Options& options) {
  if (options.format == Format::kChrome && options.run.empty()) {
    return fail_exit(Code::kInvalidArgument, Exit::kUsage,
                     "-o chrome shows the collectives of one run; name it with --trace RUN");
  }
  NPU_TRY(const std::string socket, daemon_to_ask(options.socket));
  say(Verbosity::kVerbose, "ps", fmt::format("asks the daemon at '{}'", socket));
  NPU_TRY(const std::string text,
          options.run.empty() ? runs_text(options, socket) : trace_text(options, socket));
  return print(text);
}

}  // namespace

void add_ps(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ps", "Show runs, or the last collectives of one");
  command->description(kAbout);
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  CLI::Option* trace =
      command->add_option("--trace", options->run, "Show the last collectives of this run")
          ->type_name("RUN");
  command->add_option("-n", options->last, "How many; 20 in the table, all in json and chrome")
      ->needs(trace)
      ->check(CLI::Range(1u, shm::kTraceSlots))
      ->type_name("N");
  add_trace_format(*command, options->format);
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto shown = show(*options);
      return shown ? 0 : report_error("ps", shown.error());
    };
  });
}

}  // namespace npu::cli
