// npu config: what a job file means, without running it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.hpp"
#include "client/render/text_format.hpp"
#include "config/load.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Check, print or explain job files.\n"
    "\n"
    "Examples:\n"
    "  npu config check job.yaml                         all mistakes in one pass, exit 78 if "
    "there is one\n"
    "  npu config print job.yaml --set train.epochs=1    every key with its effective value\n"
    "  npu config schema                                 keys, types, defaults\n";

struct Options {
  std::string job_file;
  std::vector<std::string> overrides;
};

Result<void> check(const Options& options) {
  NPU_TRY(const config::Job job, config::load_job(options.job_file, options.overrides));
  return print(fmt::format(
      "{}: ok: job '{}', {} on devices {}, batch {} ({} a rank)\n", options.job_file, job.name,
      job.model.arch, client::format_ids(job.devices), job.train.batch_size, job.rank_batch()));
}

Result<void> print_resolved(const Options& options) {
  NPU_TRY(const config::Job job, config::load_job(options.job_file, options.overrides));
  return print(config::print_job(job));
}

void add_one(CLI::App& parent, Action& chosen, const char* name, const char* about,
             Result<void> (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* command = parent.add_subcommand(name, about);
  command->add_option("FILE", options->job_file, "The job file (YAML)")->required()->type_name("");
  add_overrides(*command, options->overrides);
  command->callback([&chosen, options, name, run] {
    chosen = [options, name, run](char**) {
      const auto done = run(*options);
      return done ? 0 : report_error(fmt::format("config {}", name), done.error());
    };
  });
}

}  // namespace

void add_config(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("config", "Check, print or explain job files");
  command->description(kAbout);
  command->require_subcommand(1);
  add_one(*command, chosen, "check", "Report every mistake in a job file", check);
  add_one(*command, chosen, "print", "Print a job with all defaults filled in", print_resolved);
  CLI::App* schema = command->add_subcommand("schema", "Print the keys a job file may have");
  auto unused = std::make_shared<std::string>();
  schema->add_option("FILE", *unused, "Accepted and not read, as in the other two")->type_name("");
  schema->callback([&chosen, unused] {
    chosen = [](char**) {
      const auto done = print(config::schema_text());
      return done ? 0 : report_error("config schema", done.error());
    };
  });
}

}  // namespace npu::cli
