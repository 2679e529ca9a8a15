// npu ckpt: list, check, look into and take out checkpoints. The daemon reads the store; this asks
// it.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "client/api/admin.hpp"
#include "client/cli/ckpt_average.hpp"
#include "client/cli/ckpt_view.hpp"
#include "client/cli/command.hpp"
#include "client/cli/copy_file.hpp"
#include "shm/base/units.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "List, verify, show and export checkpoints.\n"
    "\n"
    "Examples:\n"
    "  npu ckpt ls                                     all runs\n"
    "  npu ckpt verify resnet20-fashion-mnist          read every byte, check every digest\n"
    "  npu ckpt export resnet20-fashion-mnist --to model.safetensors\n"
    "  npu ckpt show resnet20-fashion-mnist --step 235\n"
    "  npu ckpt export resnet20-fashion-mnist --best --to best.safetensors\n"
    "\n"
    "In the list a star marks the one that a resume takes, a plus the one of the best epoch.\n"
    "Only the calling user's are seen. Where no daemon answers a private one reads the store.\n";

struct Options {
  client::DaemonChoice daemon;
  Format format = Format::kText;
  std::string run;
  int64_t step = client::kNewestStep;
  bool best = false;
  std::string to;
  bool ema = false;
};

int64_t wanted_step(const Options& options) {
  return options.best ? client::kBestStep : options.step;
}

using Work = Result<int> (*)(const Options&, const std::string& socket);

Result<std::vector<client::CheckpointInfo>> list(const Options& options, const std::string& socket,
                                                 bool verify) {
  NPU_TRY(auto all, client::list_checkpoints(socket, options.run, verify));
  if (options.step >= 0) std::erase_if(all, [&](const auto& c) { return c.step != options.step; });
  if (all.empty() && !options.run.empty()) {
    return fail(Code::kNotFound, "run '{}' has no checkpoint{}; `npu ckpt ls` lists what there is",
                options.run, options.step >= 0 ? fmt::format(" of step {}", options.step) : "");
  }
  return all;
}

Result<int> ls(const Options& options, const std::string& socket) {
  NPU_TRY(const auto all, list(options, socket, false));
  NPU_TRY_VOID(
      print(options.format == Format::kJson ? checkpoints_json(all) : checkpoints_table(all)));
  return 0;
}

Result<int> verify(const Options& options, const std::string& socket) {
  NPU_TRY(const auto all, list(options, socket, true));
  NPU_TRY_VOID(
      print(options.format == Format::kJson ? checkpoints_json(all) : checkpoints_table(all)));
  const auto bad = std::ranges::count_if(all, [](const auto& c) { return c.state != "valid"; });
  if (bad == 0) return 0;
  return fail(Code::kDataLoss,
              "{} of {} checkpoints of run '{}' do not verify; a resume takes the newest valid one",
              bad, all.size(), options.run);
}

Result<int> show(const Options& options, const std::string& socket) {
  NPU_TRY(client::CheckpointFiles files,
          client::open_checkpoint(socket, options.run, wanted_step(options)));
  NPU_TRY(const std::string text, checkpoint_contents(std::move(files)));
  NPU_TRY_VOID(print(text));
  return 0;
}

Result<int> export_model(const Options& options, const std::string& socket) {
  NPU_TRY(client::CheckpointFiles files,
          client::open_checkpoint(socket, options.run, wanted_step(options)));
  const int64_t step = files.step;
  UniqueFd weights;
  if (options.ema) {
    NPU_TRY(weights, averaged_model(std::move(files)));
  } else {
    weights = std::move(files.model);
  }
  NPU_TRY(const uint64_t bytes, copy_to_file(weights.get(), options.to));
  NPU_TRY_VOID(print(fmt::format("step {} of run '{}' -> {} ({})\n", step, options.run, options.to,
                                 format_bytes(bytes))));
  return 0;
}

Result<int> with_daemon(const Options& options, Work work) {
  NPU_TRY(const client::DaemonAccess daemon, client::open_store(options.daemon));
  say(Verbosity::kVerbose, "ckpt",
      fmt::format("asks {} daemon at '{}'", daemon.owned ? "a private" : "the", daemon.socket));
  return work(options, daemon.socket);
}

CLI::App* add_one(CLI::App& parent, Action& chosen, const std::shared_ptr<Options>& options,
                  const char* name, const char* about, Work work) {
  CLI::App* command = parent.add_subcommand(name, about);
  add_daemon_choice(*command, options->daemon);
  command->callback([&chosen, options, name, work] {
    chosen = [options, name, work](char**) {
      const auto code = with_daemon(*options, work);
      return code ? *code : report_error(fmt::format("ckpt {}", name), code.error());
    };
  });
  return command;
}

}  // namespace

void add_ckpt(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ckpt", "List, verify, show and export checkpoints");
  command->description(kAbout);
  command->require_subcommand(1);
  const auto add_run = [&](CLI::App* to) {
    return to->add_option("RUN", options->run, "The run's name (name: in its job file)")
        ->type_name("");
  };
  const auto add_step = [&](CLI::App* to) {
    return to->add_option("--step", options->step, "A step; the newest (verify: all) if not given")
        ->check(CLI::NonNegativeNumber)
        ->type_name("N");
  };
  const auto add_step_or_best = [&](CLI::App* to) {
    CLI::Option* step = add_step(to);
    to->add_flag("--best", options->best, "The best epoch's instead of the newest")->excludes(step);
  };
  CLI::App* one = add_one(*command, chosen, options, "ls", "List checkpoints, oldest first", ls);
  add_run(one);
  add_format(*one, options->format);
  one = add_one(*command, chosen, options, "verify", "Read every byte and check every digest",
                verify);
  add_run(one)->required();
  add_step(one);
  add_format(*one, options->format);
  one = add_one(*command, chosen, options, "show", "Print what a checkpoint holds", show);
  add_run(one)->required();
  add_step_or_best(one);
  one = add_one(*command, chosen, options, "export",
                "Copy the weights out (safetensors, torchvision's names)", export_model);
  add_run(one)->required();
  add_step_or_best(one);
  one->add_option("--to", options->to, "The file to write; replaced as a whole or left alone")
      ->required()
      ->type_name("FILE.safetensors");
  one->add_flag("--ema", options->ema, "The averaged weights (train.ema_decay) instead");
}

}  // namespace npu::cli
