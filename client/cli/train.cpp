// npu train: one rank of a job, started by `npu launch`, by hand or by a service manager.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "client/api/admin.hpp"
#include "client/cli/command.hpp"
#include "client/cli/graceful_stop.hpp"
#include "client/cli/last_words.hpp"
#include "client/cli/passive_wait.hpp"
#include "client/frontend/environment.hpp"
#include "client/launch/rank_env.hpp"
#include "client/render/json_renderer.hpp"
#include "client/render/text_format.hpp"
#include "client/render/text_renderer.hpp"
#include "client/train/trainer.hpp"
#include "config/load.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Run one rank of a job; `npu launch` starts these.\n"
    "\n"
    "Examples:\n"
    "  npu train job.yaml --set devices=0                                   a job of one device\n"
    "  RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 NPU_RUN_KEY=secret npu train job.yaml --set devices=0-1\n"
    "\n"
    "Environment: RANK WORLD_SIZE LOCAL_RANK (or RANK_ID RANK_SIZE DEVICE_ID), NPUD_SOCKET, "
    "NPU_RUN_KEY (the same "
    "for all ranks),\nOMP_NUM_THREADS (compute threads, 1 if not set).\n"
    "\n"
    "SIGTERM and SIGINT end all ranks of the job after the present step, with a checkpoint and "
    "exit "
    "code 80;\na second one ends this rank at once.\n";

struct Options {
  std::string job_file;
  std::vector<std::string> overrides;
  std::string socket;
};

class NullSink : public client::EventSink {
 public:
  void on_event(const client::Event&) override {}
};

void warn(const std::string& text) {
  if (verbosity() > Verbosity::kQuiet) std::fprintf(stderr, "warning: %s\n", text.c_str());
}

std::string env_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<int> env_number(const char* name, int low, int high, int otherwise) {
  const std::string text = env_text(name);
  if (text.empty()) return otherwise;
  int value = 0;
  // OMP_NUM_THREADS may be a list for nested regions, "4,2": the first counts.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || (*end != '\0' && *end != ',') || value < low || value > high) {
    return fail(Code::kInvalidArgument,
                "environment: {}='{}' where a number from {} to {} was expected", name, text, low,
                high);
  }
  return value;
}

// The descriptor that the launcher listens at; -1 when there is none.
Result<int> event_fd() {
  NPU_TRY(const int fd, env_number("NPU_EVENT_FD", 3, 1 << 20, -1));
  if (fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return fail(Code::kInvalidArgument,
                "environment: NPU_EVENT_FD={} is not an open descriptor; unset it", fd);
  }
  return fd;
}

// Where the launcher's ranks keep decoded pictures; a stranger's descriptor is not used, so a wrong
// number costs nothing but the sharing.
Result<int> pictures_fd() { return env_number("NPU_PICTURES_FD", 3, 1 << 20, -1); }

Result<int> rank_of(const config::Job& job) {
  NPU_TRY(const auto place,
          frontend::rank_place([](const char* name) { return std::getenv(name); }));
  if (!place) {
    if (job.world() == 1) return 0;
    return fail(Code::kInvalidArgument,
                "job '{}' has {} devices but RANK is not set: use `npu launch`, set RANK, "
                "WORLD_SIZE and LOCAL_RANK, "
                "or pass --set devices=0",
                job.name, job.world());
  }
  if (place->world != job.world()) {
    return fail(Code::kInvalidArgument,
                "job '{}' has {} devices ({}) but the environment says {} ranks", job.name,
                job.world(), client::format_ids(job.devices), place->world);
  }
  const int device = job.devices[static_cast<size_t>(place->rank)];
  if (place->device && *place->device != device) {
    return fail(Code::kInvalidArgument,
                "environment: DEVICE_ID={} but rank {} of job '{}' drives device {}",
                *place->device, place->rank, job.name, device);
  }
  return place->rank;
}

Result<client::RankEnd> train(const Options& options, int threads, bool launched,
                              LastWords& words) {
  NPU_TRY(config::Job job, config::load_job(options.job_file, options.overrides));
  NPU_TRY(const int rank, rank_of(job));
  // DEVICE_ID counts visible devices, as the job does.
  NPU_TRY(const auto visible,
          frontend::visible_devices([](const char* name) { return std::getenv(name); }));
  if (visible) {
    NPU_TRY(job.devices, frontend::renumber(job.devices, *visible));
  }
  words.set_rank(rank);
  NPU_FAILPOINT("train.start");
  // A socket that was named is the only one tried: another daemon does not know this run.
  NPU_TRY(const int pictures, pictures_fd());
  const std::string named = options.socket.empty() ? env_text("NPUD_SOCKET") : options.socket;
  NPU_TRY(const std::string socket, client::find_daemon(named));
  return client::run_rank(
      job,
      {.socket = socket,
       .run_key = env_text("NPU_RUN_KEY"),
       .rank = rank,
       .threads = threads,
       .on_failure = words.failure_handler(),
       .on_warning = warn,
       .pictures_fd = pictures,
       .stop_signal = &stop_signal(),
       .on_training = [launched] { stop_gracefully(launched ? ::getppid() : 0); }},
      words);
}

std::unique_ptr<client::EventSink> make_sink(int event_fd) {
  if (event_fd >= 0) return std::make_unique<client::JsonSink>(event_fd);
  // Ranks other than 0 have nothing to show, and a rank that fails to learn its number is one of
  // them.
  if (const std::string rank = env_text("RANK") + env_text("RANK_ID");
      !rank.empty() && rank[0] != '0') {
    return std::make_unique<NullSink>();
  }
  client::TextOptions text;
  text.traits = client::terminal_traits(STDOUT_FILENO);
  return std::make_unique<client::TextRenderer>(text);
}

int run(const Options& options, char** argv) {
  const auto threads = env_number("OMP_NUM_THREADS", 1, 1024, 1);
  if (!threads) return report_error("train", threads.error());
  if (*threads > 1) wait_passively(argv);
  const auto fd = event_fd();
  if (!fd) return report_error("train", fd.error());
  // The launcher shows the event in its report; saying it here as well would say it once a rank.
  LastWords words(make_sink(*fd), *fd < 0);
  const auto done = train(options, *threads, *fd >= 0, words);
  if (!done) return words.say(done.error());
  return *done == client::RankEnd::kStopped ? client::kExitStopped : 0;
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Run one rank of a job (used by launch)");
  command->description(kAbout);
  command->add_option("JOB", options->job_file, "The job file (YAML)")->required()->type_name("");
  add_overrides(*command, options->overrides);
  command->add_option("--socket", options->socket, "The daemon's socket")->type_name("PATH");
  command->callback(
      [&chosen, options] { chosen = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace npu::cli
