// npu launch: the whole job, one process a device.
#include "client/launch/launch.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/launch_flags.hpp"
#include "client/cli/launch_job.hpp"
#include "client/launch/fault_code.hpp"
#include "client/launch/skew_watch.hpp"
#include "client/record/recording_renderer.hpp"
#include "client/record/run_folder.hpp"
#include "client/render/json_renderer.hpp"
#include "client/render/text_renderer.hpp"
#include "config/load.hpp"
#include "shm/base/units.hpp"

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
    "  npu launch DATA_DIR -a resnet50 --lr 0.8 -b 2048 --amp --device_list 0,1,2,3,4,5,6,7\n"
    "  npu launch DATA_DIR -a resnet50 --print-job > job.yaml      the job that flags stand for\n"
    "  npu launch --profile tf --use_synthetic_data --batch_size 32 --train_steps 10\n"
    "\n"
    "DATA_DIR holds train/ and val/ (or test/) with a folder a class, IDX files, or CIFAR's binary "
    "batches.\nA batch that is a multiple of the processor's cores for each rank is the fastest.\n"
    "\n"
    "The first rank that fails ends the job and its exit code becomes this program's (128 + signal "
    "if it was "
    "killed).\nSIGINT and SIGTERM let the ranks finish their step and save; the exit code is 80 "
    "then, "
    "and the job goes on\nfrom there when it is launched again. A second signal, or the end of "
    "--grace, ends them at once.\n"
    "\n"
    "--max-restarts N (restart.max_restarts) starts the ranks again from the newest checkpoint "
    "when "
    "one was killed, lost\nthe daemon or timed out; a private daemon that died is replaced, "
    "another "
    "one is waited for. N counts restarts in a\nrow without a new checkpoint. What would come "
    "again "
    "(exit codes 64, 65, 66, 73, 77, 78) is not restarted.\n"
    "\n"
    "--wait[=SECONDS] stands in line while another run has the devices; first come, first served, "
    "`npu ps` shows the line.\nWithout it busy devices are an error (75).\n";

struct Options {
  client::LaunchOptions launch;
  JobRequest request;
  bool print_job = false;
  std::string wait;  // empty: not given; "true": without a value
  Format format = Format::kText;
};

std::unique_ptr<client::Renderer> make_renderer(Format format,
                                                std::shared_ptr<client::SkewWatch> skew) {
  const bool quiet = verbosity() == Verbosity::kQuiet;
  if (format == Format::kJson) {
    return std::make_unique<client::JsonRenderer>(STDOUT_FILENO, STDERR_FILENO, quiet);
  }
  client::TextOptions text;
  text.traits = client::terminal_traits(STDOUT_FILENO);
  text.quiet = quiet;
  text.skew = [watch = std::move(skew)](const client::StartEvent& start) {
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

client::RestartPolicy restart_policy(const config::Job& job) {
  client::RestartPolicy policy{.max_restarts = job.restart.max_restarts,
                               .backoff = job.restart.backoff};
  if (job.checkpoint.resume != config::ResumeKind::kAuto && !job.train.evaluate) {
    policy.overrides = {"checkpoint.resume=auto"};
  }
  return policy;
}

/// As LaunchOptions::wait.
Result<std::optional<milliseconds>> wait_limit(const std::string& given) {
  if (given.empty() || given == "false") return std::optional<milliseconds>();
  if (given == "true") return std::optional<milliseconds>(0);
  const auto limit = parse_duration(given);
  if (limit && limit->count() > 0) return std::optional<milliseconds>(*limit);
  return fail_exit(Code::kInvalidArgument, Exit::kUsage,
                   "--wait={}: expected a time above 0 such as 30 or 5m; without a value it waits as "
                   "long as it takes",
                   given);
}

Result<int> launch_job(Options& options, client::Renderer& renderer) {
  NPU_TRY(options.launch.wait, wait_limit(options.wait));
  NPU_TRY(PreparedJob prepared, prepare_job(options.request));
  for (const std::string& remark : prepared.remarks) renderer.remark("npu launch: " + remark);
  if (options.print_job) {
    NPU_TRY_VOID(print(prepared.text));
    return 0;
  }
  options.launch.job_file = prepared.file;
  options.launch.overrides = prepared.overrides;
  options.launch.devices = prepared.job.devices;
  options.launch.run = prepared.job.name;
  options.launch.restart = restart_policy(prepared.job);
  options.launch.keep_ranks = prepared.job.collectives.reconnect.count() > 0;
  options.launch.share_pictures = prepared.job.data.cache_bytes > 0 &&
                                  prepared.job.data.format == config::DataFormat::kImageFolder;
  const client::RecorderOptions recorder = recorder_options(prepared.job);
  if (!recorder.folder.empty()) {
    say(Verbosity::kVerbose, "launch", fmt::format("curves and logs go to '{}'", recorder.folder));
  }
  client::RecordingRenderer recording(renderer, recorder);
  return client::launch(options.launch, recording);
}

int run(Options& options) {
  const auto skew = std::make_shared<client::SkewWatch>();
  options.launch.on_restart = [skew] { *skew = client::SkewWatch(); };
  const auto renderer = make_renderer(options.format, skew);
  const auto code = launch_job(options, *renderer);
  renderer->finish();
  if (code) return *code;
  if (options.format == Format::kJson) {
    client::ErrorEvent event;
    event.code = code_name(code.error().code);
    event.exit_code = static_cast<int>(code.error().exit);
    event.pid = ::getpid();
    event.message = code.error().message;
    if (const auto* fault = client::fault_code(event.code, event.exit_code, event.message)) {
      event.fault = fault->code;
    }
    renderer->on_event(event);
  }
  return report_error("launch", code.error());
}

/// In other words --set restart.*: the job file has the same keys.
void add_restart_flags(CLI::App& command, const std::shared_ptr<Options>& options) {
  command
      .add_option_function<int>(
          "--max-restarts",
          [options](const int& n) {
            options->request.overrides.push_back(fmt::format("restart.max_restarts={}", n));
          },
          "Restarts after failures, in a row without a new checkpoint (0)")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
  command
      .add_option_function<double>(
          "--restart-backoff",
          [options](const double& seconds) {
            options->request.overrides.push_back(
                fmt::format("restart.backoff={}ms", std::llround(seconds * 1000)));
          },
          "Wait before a restart, doubles with each in a row up to 30 (1)")
      ->check(CLI::Range(0.1, 30.0))
      ->type_name("SECONDS");
}

}  // namespace

void add_launch(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("launch", "Run a job, one process per device");
  command->description(kAbout);
  command->add_option("JOB", options->request.target, "A job file (YAML), or a data folder")
      ->type_name("");
  add_overrides(*command, options->request.overrides);
  command
      ->add_option("--profile", options->request.profile,
                   "Whose flags and numeric conventions, without a job file")
      ->check(CLI::IsMember({"pytorch", "tf"}))
      ->type_name("pytorch|tf");
  command->add_flag("--print-job", options->print_job,
                    "Print the job that would run, as YAML, and start nothing");
  add_format(*command, options->format);
  add_daemon_choice(*command, options->launch.daemon);
  command
      ->add_option_function<double>(
          "--grace",
          [options](const double& seconds) {
            options->launch.supervisor.stop_grace =
                std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(seconds));
          },
          "From a signal to the end of ranks that do not stop (30)")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS");
  command->add_flag("--bind,!--no-bind", options->launch.bind,
                    "Ranks of one thread that share the processors evenly each stay on one (on)");
  add_restart_flags(*command, options);
  // A flag, not an option: "--wait JOB" does not take the job for a time.
  command->add_flag("--wait", options->wait,
                    "Stand in line while the devices are busy; --wait=SECONDS: at most so long");
  add_launch_flags(*command, options->request.given);
  command->callback([&chosen, options] { chosen = [options](char**) { return run(*options); }; });
}

}  // namespace npu::cli
