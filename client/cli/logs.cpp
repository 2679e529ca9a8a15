// npu logs: what the launcher and the ranks of a run said, also after its end.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/alternate_screen.hpp"
#include "client/cli/command.hpp"
#include "client/cli/run_named.hpp"
#include "client/record/launcher_lock.hpp"
#include "client/record/log_reader.hpp"
#include "client/render/output.hpp"
#include "client/render/plain_text.hpp"
#include "client/render/terminal.hpp"
#include "config/diagnostics.hpp"
#include "shm/base/fd.hpp"
#include "shm/layout_data.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Show what `npu launch` and the ranks of a run printed, in the order of time; also of a run "
    "that "
    "is over.\n"
    "\n"
    "Examples:\n"
    "  npu logs resnet20-fashion-mnist\n"
    "  npu logs resnet20-fashion-mnist -f -n 20        the last lines, then what comes, until it "
    "ends\n"
    "  npu logs resnet20-fashion-mnist --rank 3        what rank 3 itself printed\n"
    "  npu logs resnet20-fashion-mnist -o json | jq -r 'select(.rank == 3) | .text'\n"
    "  npu logs ./somewhere/run-a                      a run's folder\n"
    "\n"
    "Launches of a run follow each other in its log. Of each rank, and of the launcher, the last 4 "
    "to 8 MiB are kept.\nControl characters are shown as \\xNN on a terminal and passed on to a "
    "pipe. Ctrl-C ends -f with exit code 0.\n";

constexpr int kFollowEvery_ms = 100;
constexpr int64_t kAllLines = -1;

struct Options {
  std::string run;
  std::optional<std::string> dir;
  std::optional<int> rank;
  int64_t lines = kAllLines;
  bool follow = false;
  bool times = false;
  Format format = Format::kText;
};

class LogPrinter {
 public:
  explicit LogPrinter(const Options& options)
      : options_(options),
        terminal_(::isatty(STDOUT_FILENO) == 1),
        colour_(client::terminal_traits(STDOUT_FILENO).colour),
        out_(STDOUT_FILENO) {}

  void print(std::span<const client::LogLine> lines) {
    std::string text;
    for (const client::LogLine& line : lines) {
      text += options_.format == Format::kJson ? as_json(line) : as_text(line);
    }
    out_.write(text);
  }
  [[nodiscard]] int broken() const noexcept { return out_.broken(); }

 private:
  std::string as_json(const client::LogLine& line) const {
    using Json = nlohmann::ordered_json;
    const bool rank = line.source != client::kLauncher;
    const Json out = {{"schema", 1},
                      {"time", line.time.empty() ? Json(nullptr) : Json(line.time)},
                      {"rank", rank ? Json(line.source) : Json(nullptr)},
                      {"stream", line.stream == client::LogStream::kStdout ? "stdout" : "stderr"},
                      {"text", line.text}};
    return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }

  std::string as_text(const client::LogLine& line) const {
    std::string text;
    if (options_.times) text += line.time + ' ';
    // Of one rank alone the lines are as it printed them.
    if (line.source != client::kLauncher && !options_.rank) {
      const std::string who = fmt::format("[rank {}]", line.source);
      text += (colour_ ? "\x1b[36m" + who + "\x1b[0m" : who) + ' ';
    }
    return text + (terminal_ ? client::plain_text(line.text) : line.text) + '\n';
  }

  const Options& options_;
  bool terminal_, colour_;
  client::Output out_;
};

/// Of its newest launch; nothing when its summary does not say.
std::optional<int> world_of(const std::string& folder) {
  const auto text = read_file(folder + "/summary.json", 1 << 20);
  if (!text) return std::nullopt;
  const auto summary = nlohmann::json::parse(*text, nullptr, false);
  const auto at = nlohmann::json::json_pointer("/start/world");
  if (summary.is_discarded() || !summary.contains(at) || !summary.at(at).is_number_integer()) {
    return std::nullopt;
  }
  return summary.at(at).get<int>();
}

Result<client::LogReader> open_logs(const Options& options, const std::string& folder) {
  const auto world = world_of(folder);
  if (options.rank && world && *options.rank >= *world) {
    return fail(Code::kNotFound, "logs of run {}: it has ranks 0 to {}, not {}",
                config::quoted(options.run), *world - 1, *options.rank);
  }
  auto reader = client::LogReader::open(folder, options.rank);
  if (reader || reader.error().code != Code::kNotFound) return reader;
  if (world) {
    return fail(Code::kNotFound, "logs of run {}: {}", config::quoted(options.run),
                reader.error().message);
  }
  return fail(Code::kNotFound,
              "no run {} has a folder here ({}); {}; --dir names output.dir of a job that sets it",
              config::quoted(options.run), folder,
              suggestion(options.run, recorded_runs(options.dir)));
}

Result<void> show(const Options& options) {
  const std::string folder = run_folder_named(options.dir, options.run);
  say(Verbosity::kVerbose, "logs", fmt::format("reads '{}/logs'", folder));
  NPU_TRY(client::LogReader reader, open_logs(options, folder));
  const AlternateScreen ends_well(false);
  LogPrinter printer(options);
  size_t skip_all_but = options.lines == kAllLines ? SIZE_MAX : static_cast<size_t>(options.lines);
  for (;;) {
    // Asked first: what was written before the launcher ended is then read.
    NPU_TRY(const auto launcher, client::launcher_of(folder));
    NPU_TRY(const auto lines, reader.read(!launcher));
    const size_t shown = std::min(lines.size(), std::exchange(skip_all_but, SIZE_MAX));
    printer.print(std::span(lines).last(shown));
    if (printer.broken() == EPIPE) return {};
    if (printer.broken() != 0) return fail_errno(printer.broken(), "write to stdout");
    if (!options.follow || !launcher) return {};
    ::poll(nullptr, 0, kFollowEvery_ms);
  }
}

}  // namespace

void add_logs(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("logs", "Show what a run printed");
  command->description(kAbout);
  command->add_option("RUN", options->run, "The run's name, or its folder")
      ->required()
      ->type_name("");
  command->add_flag("-f,--follow", options->follow, "Go on until the run ends");
  command->add_option("--rank", options->rank, "Of this rank alone")
      ->check(CLI::Range(0u, shm::kMaxDevices - 1))
      ->type_name("N");
  command->add_option("-n,--lines", options->lines, "Only the last lines to begin with")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->type_name("LINES");
  command->add_flag("-t,--times", options->times, "When each line came, UTC");
  command->add_option("--dir", options->dir, "Where the runs are, output.dir of the job")
      ->type_name("DIR");
  add_format(*command, options->format);
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto shown = show(*options);
      return shown ? 0 : report_error("logs", shown.error());
    };
  });
}

}  // namespace npu::cli
