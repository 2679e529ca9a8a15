// npu help-tree: what manual pages and completion are made of. Hidden: packages call it while they
// are built.
#include <CLI/CLI.hpp>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/help_completion.hpp"
#include "client/cli/help_pages.hpp"
#include "client/cli/help_tree.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Print what the program knows of itself.\n"
    "\n"
    "Examples:\n"
    "  npu help-tree --completion                             a script for bash\n"
    "  npu help-tree docs/man/npu.1.scd | scdoc               a manual page from its template\n"
    "  npud --help > npud.txt; npu help-tree docs/man/npud.8.scd --daemon-help npud.txt\n";

constexpr uint64_t kMaxFileBytes = 1 << 20;

struct Options {
  std::string page;
  std::string daemon_help;
  bool completion = false;
};

Result<std::string> text(const Options& options, const CLI::App& root) {
  if (options.completion == !options.page.empty()) {
    return fail_exit(Code::kInvalidArgument, Exit::kUsage,
                     "name a TEMPLATE or --completion, one of them");
  }
  const HelpCommand program = help_tree(root);
  if (options.completion) return bash_completion(program);
  std::vector<HelpOption> daemon;
  if (!options.daemon_help.empty()) {
    NPU_TRY(const std::string help, read_file(options.daemon_help, kMaxFileBytes));
    NPU_TRY(daemon, options_of_help(help));
  }
  NPU_TRY(const std::string page, read_file(options.page, kMaxFileBytes));
  return fill_page(page, {.program = program, .daemon_options = daemon});
}

}  // namespace

void add_help_tree(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("help-tree", "Print what the program knows of itself");
  command->description(kAbout)->group("");
  command->add_option("TEMPLATE", options->page, "A page with marks such as @commands@")
      ->type_name("");
  command->add_option("--daemon-help", options->daemon_help, "What `npud --help` printed")
      ->type_name("FILE");
  command->add_flag("--completion", options->completion, "Bash completion instead of a page");
  command->callback([&chosen, &app, options] {
    chosen = [&app, options](char**) {
      auto made = text(*options, app);
      if (!made) return report_error("help-tree", made.error());
      const auto printed = print(*made);
      return printed ? 0 : report_error("help-tree", printed.error());
    };
  });
}

}  // namespace npu::cli
