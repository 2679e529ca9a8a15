// npu stop: asks a run to finish its step, save and end; or ends it at once.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/command.hpp"
#include "client/cli/run_named.hpp"
#include "client/cli/stop_run.hpp"
#include "config/diagnostics.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Stop a run: its ranks finish their step, save a checkpoint and end (exit code 80); launched "
    "again it goes on.\n"
    "\n"
    "Examples:\n"
    "  npu stop resnet20-fashion-mnist                and wait for its end, at most 60 s\n"
    "  npu stop resnet20-fashion-mnist --wait 0       only ask\n"
    "  npu stop resnet20-fashion-mnist --now          at once; steps since the last checkpoint are "
    "lost\n"
    "\n"
    "Another user's run: administrators end it with --now; its ranks end with exit code 77.\n"
    "The signal goes to the `npu launch` of the run, or to its ranks when they were started by "
    "hand. Exit codes:\n0 it ended (or was asked, with --wait 0), 66 no such run goes on, 75 it "
    "still runs, 77 it is not yours.\n";

struct Options {
  std::string run;
  std::string socket;
  std::optional<std::string> dir;
  std::optional<int64_t> uid;
  bool now = false;
  double wait_s = 60;
  Format format = Format::kText;
};

/// A run that goes on and the daemon that knows it.
struct LiveRun {
  client::RunInfo info;
  std::string socket;
};

struct Found {
  std::optional<LiveRun> run;  // none: between two attempts, only its launcher is there
  std::vector<StopTarget> targets;
  bool evict = false;  // another user's: the daemon ends it, if it takes the caller's word
};

bool goes_on(const client::RunInfo& run) {
  return run.state == "forming" || run.state == "running" || run.state == "pending";
}

/// Those of that name; the caller's own when several users have one. `known`: names that go on.
Result<std::vector<LiveRun>> runs_named(const Options& options,
                                        const std::vector<std::string>& sockets,
                                        std::vector<std::string>& known) {
  std::vector<LiveRun> named;
  for (const std::string& socket : sockets) {
    NPU_TRY(const auto runs, client::list_runs(socket));
    for (const client::RunInfo& run : runs) {
      if (!goes_on(run)) continue;
      known.push_back(run.name);
      const bool wanted = !options.uid || run.uid == *options.uid;
      if (run.name == options.run && wanted) named.push_back({run, socket});
    }
  }
  const auto own = [](const LiveRun& run) {
    return run.info.uid == static_cast<int64_t>(::geteuid());
  };
  if (named.size() > 1 && std::ranges::any_of(named, own)) {
    std::erase_if(named, [&](const LiveRun& run) { return !own(run); });
  }
  return named;
}

std::string places_of(const std::vector<LiveRun>& runs) {
  std::string text;
  for (const LiveRun& run : runs) {
    text += fmt::format("{}uid {} at '{}'", text.empty() ? "" : ", ", run.info.uid, run.socket);
  }
  return text;
}

Result<Found> find(const Options& options) {
  auto sockets = daemons_to_ask(options.socket);
  std::vector<std::string> known;
  std::vector<LiveRun> named;
  if (sockets) {
    NPU_TRY(named, runs_named(options, *sockets, known));
  }
  if (named.size() > 1) {
    return fail_exit(Code::kFailedPrecondition, Exit::kUsage,
                     "stop run {}: several go on under that name ({}); name one with --uid or "
                     "--socket",
                     config::quoted(options.run), places_of(named));
  }
  Found found;
  if (!named.empty()) {
    found.run = std::move(named.front());
    const client::RunInfo& run = found.run->info;
    found.evict = run.uid != static_cast<int64_t>(::geteuid()) && ::geteuid() != 0;
    if (found.evict && !options.now) {
      return fail(
          Code::kPermissionDenied,
          "stop run '{}': it is of uid {}, who alone can let it save; an administrator ends "
          "it with --now",
          run.name, run.uid);
    }
    if (!found.evict) {
      NPU_TRY(found.targets, stop_targets(found.run->socket, run));
    }
    return found;
  }
  NPU_TRY(auto launcher, stop_target_of_folder(run_folder_named(options.dir, options.run)));
  if (launcher) {
    found.targets.push_back(std::move(*launcher));
    return found;
  }
  if (!sockets) return tl::make_unexpected(std::move(sockets.error()));
  return fail(Code::kNotFound, "no run {} of yours goes on; {}", config::quoted(options.run),
              suggestion(options.run, std::move(known)));
}

std::string who(const Found& found) {
  if (found.evict) return fmt::format("the daemon (for uid {})", found.run->info.uid);
  std::vector<pid_t> pids;
  for (const StopTarget& target : found.targets) pids.push_back(target.pid);
  if (found.targets.front().launcher) return fmt::format("npu launch (pid {})", pids.front());
  return fmt::format("{} started by hand (pid {})", pids.size() == 1 ? "its rank" : "its ranks",
                     fmt::join(pids, ", "));
}

/// The newest one, when the daemon is still there to say.
std::optional<int64_t> saved_step(const Found& found) {
  if (!found.run || found.run->info.uid != static_cast<int64_t>(::geteuid())) return std::nullopt;
  const auto all = client::list_checkpoints(found.run->socket, found.run->info.name, false);
  if (!all) return std::nullopt;
  for (const client::CheckpointInfo& checkpoint : *all) {
    if (checkpoint.latest) return checkpoint.step;
  }
  return std::nullopt;
}

struct Outcome {
  bool ended = false;
  double seconds = 0;
  std::optional<int64_t> saved;
};

std::string text_of(const Options& options, const Found& found, const Outcome& outcome) {
  std::string text = fmt::format("run '{}': {} {}", options.run, who(found),
                                 options.now ? "told to end at once" : "asked to stop");
  if (outcome.ended) text += fmt::format("; ended after {:.1f} s", outcome.seconds);
  if (outcome.saved) text += fmt::format(", newest checkpoint of step {}", *outcome.saved);
  return text + '\n';
}

std::string json_of(const Options& options, const Found& found, const Outcome& outcome) {
  using Json = nlohmann::ordered_json;
  Json pids = Json::array();
  for (const StopTarget& target : found.targets) pids.push_back(target.pid);
  const Json out = {{"schema", 1},
                    {"run", options.run},
                    {"generation", found.run ? Json(found.run->info.generation) : Json(nullptr)},
                    {"uid", found.run ? Json(found.run->info.uid) : Json(nullptr)},
                    {"how", options.now ? "now" : "gracefully"},
                    {"through", found.evict                      ? "daemon"
                                : found.targets.front().launcher ? "launcher"
                                                                 : "ranks"},
                    {"pids", std::move(pids)},
                    {"ended", outcome.ended},
                    {"seconds", outcome.seconds},
                    {"checkpoint_step", outcome.saved ? Json(*outcome.saved) : Json(nullptr)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<void> stop(const Options& options) {
  NPU_TRY(const Found found, find(options));
  say(Verbosity::kVerbose, "stop", fmt::format("signals {} of run '{}'", who(found), options.run));
  const auto begin = Clock::now();
  if (found.evict) {
    NPU_TRY(const auto ended,
            client::evict_run(found.run->socket, options.run, found.run->info.uid, "npu stop"));
    const Outcome outcome{.ended = !ended.empty() || found.run->info.state == "pending"};
    return print(options.format == Format::kJson ? json_of(options, found, outcome)
                                                 : text_of(options, found, outcome));
  }
  NPU_TRY_VOID(signal_targets(found.targets, options.now));
  const milliseconds wait(std::llround(1000 * options.wait_s));
  Outcome outcome;
  if (wait.count() > 0) {
    outcome.ended = await_end(found.targets, Deadline::after(wait));
    outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (outcome.ended) outcome.saved = saved_step(found);
  const bool json = options.format == Format::kJson;
  if (json || outcome.ended || wait.count() == 0) {
    NPU_TRY_VOID(print(json ? json_of(options, found, outcome) : text_of(options, found, outcome)));
  }
  if (outcome.ended || wait.count() == 0) return {};
  return fail_exit(Code::kDeadlineExceeded, Exit::kBusy,
                   "run '{}' still runs {:g} s after {} was asked; `npu logs {}` shows what it "
                   "does{}",
                   options.run, options.wait_s, who(found), options.run,
                   options.now ? "" : ", `npu stop " + options.run + " --now` ends it");
}

}  // namespace

void add_stop(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("stop", "Stop a run, with a checkpoint or at once");
  command->description(kAbout);
  command->add_option("RUN", options->run, "The run's name")->required()->type_name("");
  command->add_flag("--now", options->now, "Do not finish the step and do not save");
  command->add_option("--wait", options->wait_s, "How long to wait for the end (60)")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS");
  command->add_option("--uid", options->uid, "Whose run, when several users have one of that name")
      ->check(CLI::NonNegativeNumber)
      ->type_name("UID");
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  command->add_option("--dir", options->dir, "Where the runs are, output.dir of the job")
      ->type_name("DIR");
  add_format(*command, options->format);
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto stopped = stop(*options);
      return stopped ? 0 : report_error("stop", stopped.error());
    };
  });
}

}  // namespace npu::cli
