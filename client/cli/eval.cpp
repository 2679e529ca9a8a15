// npu eval: one validation of a job's weights over all its ranks; in other words a launch with
// train.evaluate.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Validate a job's weights once, over all its ranks; train nothing.\n"
    "\n"
    "Examples:\n"
    "  npu eval job.yaml                                     the newest checkpoint of the job\n"
    "  npu eval job.yaml --checkpoint best                   the one of its best epoch\n"
    "  npu eval job.yaml --checkpoint ./saved/step-936       a checkpoint directory\n"
    "  npu eval job.yaml --weights resnet50.safetensors      weights alone, torchvision's names\n"
    "\n"
    "Prints ' *   Acc@1 ... Acc@5 ...': to the digit what training printed for those weights, on "
    "any number of\ndevices and with any batch size. Stands for `npu launch JOB --set "
    "train.evaluate=true`; what else is given goes to it.\n";

struct Options {
  std::string job;
  std::string checkpoint = "latest";
  std::string weights;
};

/// As YAML, whatever is in it.
std::string quoted_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string resume_of(const Options& options) {
  if (!options.weights.empty()) return "never";
  if (options.checkpoint == "latest") return "auto";
  if (options.checkpoint == "best") return "best";
  // A job file takes a word without a slash for a misspelt one.
  const bool plain = options.checkpoint.find('/') == std::string::npos;
  return quoted_text((plain ? "./" : "") + options.checkpoint);
}

int run(const Options& options, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"npu", "launch", options.job};
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--set", "train.evaluate=true"});
  args.insert(args.end(), {"--set", "checkpoint.resume=" + resume_of(options)});
  if (!options.weights.empty()) {
    args.insert(args.end(), {"--set", "model.pretrained=" + quoted_text(options.weights)});
  }
  if (verbosity() == Verbosity::kQuiet) args.emplace_back("-q");
  for (int i = 0; i < static_cast<int>(verbosity()); ++i) args.emplace_back("-v");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  return report_error("eval", errno_error(errno, "start `npu launch`"));
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Validate a job's weights, train nothing");
  command->description(kAbout);
  command->allow_extras();
  command->add_option("JOB", options->job, "The job file (YAML)")->required()->type_name("");
  CLI::Option* checkpoint =
      command
          ->add_option("--checkpoint", options->checkpoint,
                       "latest (as if not given), best or a checkpoint directory")
          ->type_name("latest|best|PATH");
  command->add_option("--weights", options->weights, "Weights alone instead of a checkpoint")
      ->type_name("FILE.safetensors")
      ->excludes(checkpoint);
  command->callback([&chosen, options, command] {
    chosen = [options, more = command->remaining()](char**) { return run(*options, more); };
  });
}

}  // namespace npu::cli
