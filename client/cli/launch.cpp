// npu launch: the whole job, one process a device.
#include "client/launch/launch.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "client/cli/command.hpp"
#include "client/launch/skew_watch.hpp"
#include "client/record/recording_renderer.hpp"
#include "client/record/run_folder.hpp"
#include "client/render/json_renderer.hpp"
#include "client/render/text_renderer.hpp"
#include "config/load.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Run a job: one process per device, their output prefixed with the rank.\n"
    "\n"
    "Examples:\n"
    "  npu launch job.yaml\n"
    "  npu launch job.yaml --set train.epochs=1 --set devices=0-3\n"
    "  npu launch job.yaml -o json > metrics.jsonl      one object a line, everything else on "
    "stderr\n"
    "\n"
    "The first rank that fails ends the job and its exit code becomes this program's (128 + signal "
    "if it was "
    "killed).\nSIGINT and SIGTERM end the ranks, too; the job resumes from its newest checkpoint "
    "when it is "
    "launched again.\n";

struct Options {
  client::LaunchOptions launch;
  Format format = Format::kText;
};

std::unique_ptr<client::Renderer> make_renderer(Format format) {
  if (format == Format::kJson) {
    return std::make_unique<client::JsonRenderer>(STDOUT_FILENO, STDERR_FILENO);
  }
  client::TextOptions text;
  text.traits = client::terminal_traits(STDOUT_FILENO);
  text.skew = [watch = std::make_shared<client::SkewWatch>()](const client::StartEvent& start) {
    return watch->sample(start.daemon, start.run, start.world);
  };
  return std::make_unique<client::TextRenderer>(text);
}

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// What goes to the run's folder; nothing for an evaluation, which is no curve.
client::RecorderOptions recorder_options(const config::Job& job) {
  client::RecorderOptions options{.tensorboard = job.output.tensorboard, .now = wall_time};
  options.folder =
      client::runs_folder(job.output.dir, [](const char* name) { return std::getenv(name); });
  options.folder =
      job.train.evaluate || options.folder.empty() ? "" : options.folder + '/' + job.name;
  return options;
}

Result<int> launch_job(Options& options, client::Renderer& renderer) {
  NPU_TRY(const config::Job job,
          config::load_job(options.launch.job_file, options.launch.overrides));
  NPU_TRY_VOID(check_supported(job.name, config::unsupported(job)));
  options.launch.devices = job.devices;
  options.launch.run = job.name;
  client::RecordingRenderer recording(renderer, recorder_options(job));
  return client::launch(options.launch, recording);
}

int run(Options& options) {
  const auto renderer = make_renderer(options.format);
  const auto code = launch_job(options, *renderer);
  renderer->finish();
  if (code) return *code;
  if (options.format == Format::kJson) {
    client::ErrorEvent event;
    event.code = code_name(code.error().code);
    event.exit_code = static_cast<int>(code.error().exit);
    event.pid = ::getpid();
    event.message = code.error().message;
    renderer->on_event(event);
  }
  return report_error("launch", code.error());
}

}  // namespace

void add_launch(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("launch", "Run a job, one process per device");
  command->description(kAbout);
  command->add_option("JOB", options->launch.job_file, "The job file (YAML)")
      ->required()
      ->type_name("");
  add_overrides(*command, options->launch.overrides);
  add_format(*command, options->format);
  add_daemon_choice(*command, options->launch.daemon);
  command->callback([&chosen, options] { chosen = [options](char**) { return run(*options); }; });
}

}  // namespace npu::cli
