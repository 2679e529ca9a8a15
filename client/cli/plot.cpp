// npu plot: curves of runs as a picture or as text, drawn by gnuplot.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "client/cli/command.hpp"
#include "client/cli/copy_file.hpp"
#include "client/launch/child.hpp"
#include "client/record/plot_script.hpp"
#include "client/record/run_folder.hpp"
#include "client/render/terminal.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Draw the curves that `npu launch` wrote; several runs share the diagrams.\n"
    "\n"
    "Examples:\n"
    "  npu plot resnet20-fashion-mnist                        in the terminal\n"
    "  npu plot resnet20-fashion-mnist --to curves.png\n"
    "  npu plot run-a run-b --metric loss,lr --to both.svg\n"
    "  npu plot ./somewhere/run-a                             a folder that holds steps.csv\n"
    "\n"
    "Metrics are columns of steps.csv: loss acc1 acc5 lr scale img_s batch_s data_s. Needs "
    "gnuplot.\n";

struct Options {
  std::vector<std::string> runs;
  std::optional<std::string> dir;
  std::string to;
  std::string metrics = "loss,acc1,img_s";
  bool text = false;
};

std::string env_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> find_gnuplot() {
  const std::string path = env_text("PATH");
  for (std::string_view rest = path; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, colon)) + "/gnuplot";
    if (candidate.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return fail_exit(Code::kNotFound, Exit::kNoDaemon,
                   "no gnuplot in PATH, which draws the curves; install it (Debian: gnuplot-nox)");
}

Result<client::PlotForm> form_of(const Options& options) {
  if (options.to.empty()) return client::PlotForm::kText;
  if (options.text) {
    return fail_exit(Code::kInvalidArgument, Exit::kUsage,
                     "--text is for the terminal and --to for a file; name one of them");
  }
  if (options.to.ends_with(".png")) return client::PlotForm::kPng;
  if (options.to.ends_with(".svg")) return client::PlotForm::kSvg;
  return fail_exit(Code::kInvalidArgument, Exit::kUsage,
                   "--to '{}': the name must end in .png or .svg", options.to);
}

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> out;
  for (std::string_view rest = list; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0) out.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}

/// A path is taken as it is; a name is looked up where `npu launch` puts runs.
Result<client::RunCurves> curves_of(const Options& options, const std::string& run) {
  if (run.find('/') != std::string::npos || std::filesystem::exists(run + "/steps.csv")) {
    return client::read_curves(run, run);
  }
  const std::string folder =
      client::runs_folder(options.dir, [](const char* name) { return std::getenv(name); });
  return client::read_curves(folder + '/' + run, run);
}

Result<UniqueFd> memory_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno("create a file in memory");
  return fd;
}

Result<std::string> text_of(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) return fail_errno("read what gnuplot wrote");
  std::string text(static_cast<size_t>(size), '\0');
  NPU_TRY_VOID(pread_all(fd, std::as_writable_bytes(std::span(text)), 0, "gnuplot's output"));
  return text;
}

/// Runs the script; the picture is behind the descriptor.
Result<UniqueFd> draw(const std::string& script) {
  NPU_TRY(const std::string gnuplot, find_gnuplot());
  NPU_TRY(const UniqueFd input, memory_file("script"));
  NPU_TRY(UniqueFd output, memory_file("picture"));
  NPU_TRY(const UniqueFd errors, memory_file("errors"));
  NPU_TRY_VOID(write_all(input.get(), std::as_bytes(std::span(script)), "the script"));
  client::ChildSpec spec{.path = gnuplot,
                         .argv = {"gnuplot", fmt::format("/proc/self/fd/{}", input.get())},
                         .stdout_fd = output.get(),
                         .stderr_fd = errors.get(),
                         .keep_fds = {input.get()}};
  for (char** variable = environ; *variable != nullptr; ++variable)
    spec.env.emplace_back(*variable);
  NPU_TRY(client::Child child, client::Child::start(spec));
  const client::ExitStatus status = child.wait();
  if (!status.ok()) {
    NPU_TRY(const std::string said, text_of(errors.get()));
    return fail(Code::kInternal, "gnuplot ({}) could not draw, {}: {}", gnuplot,
                client::describe(status), said);
  }
  return output;
}

Result<void> plot(const Options& options) {
  client::PlotOptions how;
  NPU_TRY(how.form, form_of(options));
  how.metrics = words(options.metrics);
  const client::TerminalSize size = client::terminal_size(STDOUT_FILENO);
  how.columns = std::clamp(size.columns - 1, 40, 120);
  how.rows = std::clamp(size.rows - 2, 16, 24);
  std::vector<client::RunCurves> runs;
  for (const std::string& run : options.runs) {
    NPU_TRY(client::RunCurves curves, curves_of(options, run));
    runs.push_back(std::move(curves));
  }
  NPU_TRY(const std::string script, client::plot_script(runs, how));
  NPU_TRY(const UniqueFd picture, draw(script));
  if (how.form != client::PlotForm::kText) {
    NPU_TRY(const uint64_t bytes, copy_to_file(picture.get(), options.to));
    return print(fmt::format("{} of {} -> {} ({} bytes)\n", fmt::join(how.metrics, ", "),
                             fmt::join(options.runs, ", "), options.to, bytes));
  }
  NPU_TRY(std::string text, text_of(picture.get()));
  std::erase(text, '\f');  // gnuplot's page breaks
  return print(text);
}

}  // namespace

void add_plot(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plot", "Draw the curves of runs");
  command->description(kAbout);
  command->add_option("RUN", options->runs, "Runs by name, or their folders")
      ->required()
      ->type_name("");
  command->add_option("--dir", options->dir, "Where the runs are, output.dir of the job")
      ->type_name("DIR");
  command->add_option("--to", options->to, "The picture, .png or .svg")->type_name("FILE");
  command->add_option("--metric", options->metrics, "Comma-separated; a diagram each")
      ->capture_default_str()
      ->type_name("LIST");
  command->add_flag("--text", options->text, "Draw in the terminal, as without --to");
  command->callback([&chosen, options] {
    chosen = [options](char**) {
      const auto drawn = plot(*options);
      return drawn ? 0 : report_error("plot", drawn.error());
    };
  });
}

}  // namespace npu::cli
