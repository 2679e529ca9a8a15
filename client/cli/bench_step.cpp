// npu bench step: one training step timed, without or with ranks.
#include "client/cli/bench_step.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/bench/step_bench.hpp"
#include "client/cli/passive_wait.hpp"
#include "client/cli/profile_view.hpp"
#include "shm/base/units.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Time a training step (forward, backward, SGD with momentum and weight decay) on random data.\n"
    "\n"
    "Examples:\n"
    "  npu bench step --arch resnet50 --batch 16\n"
    "  npu bench step --arch resnet20 --image-size 32 --classes 10 --batch 128 --threads 2 -o "
    "json\n"
    "  npu bench step --arch resnet20 --image-size 32 --classes 10 --batch 16 --ranks 8\n"
    "\n"
    "One rank runs in this process: no daemon, no collectives, no loader. More ranks are processes "
    "that run the\n"
    "trainer on synthetic data, gradients reduced while backward runs; a step begins when its "
    "batch is ready.\n"
    "img/s: all ranks, from the median step. GFLOP/s: 2 a multiply-add of convolutions and "
    "classifier, a step as\n"
    "three forwards less the first convolution's input gradient, which nobody computes. CPU: "
    "processor time of\n"
    "a step, all ranks and the daemon, the mean; one rank: the median. peak: one "
    "rank: the most\n"
    "that was resident (VmHWM); ranks: all device arenas, and of each rank's process the most that "
    "was resident\n"
    "besides its arena (the synthetic images are in it, the daemon is not). activations: planned, "
    "of one rank.\n"
    "--profile: time by layer and kernel; with one thread processor time. Reading the clock slows "
    "a step a little.\n";

struct Options {
  std::string precision = "fp32";
  client::StepBenchOptions bench;
  client::DaemonChoice daemon;
  Format format = Format::kText;
};

void print_text(const Options& o, const client::StepBenchResult& r) {
  const client::StepBenchOptions& b = o.bench;
  std::printf("# npu bench step   arch %s   batch %d   threads %d   precision %s   ranks %u\n",
              b.arch.c_str(), b.batch, b.threads, o.precision.c_str(), b.ranks);
  std::printf("# image %dx%dx%d   classes %d   warmup %d   steps %d   rates from the median step\n",
              b.image_size, b.image_size, b.channels, b.classes, b.warmup, b.steps);
  const unsigned cores = std::thread::hardware_concurrency();
  if (b.ranks * static_cast<unsigned>(b.threads) > cores) {
    std::printf("# note: %u ranks x %d threads on %u cores; times include scheduling\n", b.ranks,
                b.threads, cores);
  }
  std::printf("#\n#%9s %9s %11s %11s %11s %12s %12s\n", "img/s", "GFLOP/s", "p50", "p99", "CPU",
              "peak", "activations");
  std::printf("#%9s %9s %11s %11s %11s %12s %12s\n", "", "", "(ms)", "(ms)", "(ms)", "",
              "(a rank)");
  std::printf("%10.2f %9.1f %11.2f %11.2f %11.2f %12s %12s\n", r.img_s, r.gflops, r.p50_ms,
              r.p99_ms, r.cpu_ms, format_bytes(r.peak_bytes).c_str(),
              format_bytes(r.activation_bytes).c_str());
  if (b.profile) std::fputs(profile_text(r.profile, b.steps).c_str(), stdout);
}

/// In 1e9 a second; 0 for what counts none.
double rate(uint64_t amount, double seconds) {
  return seconds > 0 ? 1e-9 * static_cast<double>(amount) / seconds : 0;
}

/// All rows, an average step.
nlohmann::json profile_json(const std::vector<model::ProfileRow>& rows, int steps) {
  double seconds = 0;
  for (const model::ProfileRow& row : rows) seconds += row.seconds;
  const double total = std::max(seconds, 1e-12);
  nlohmann::json list = nlohmann::json::array();
  for (const model::ProfileRow& row : rows) {
    list.push_back({{"layer", row.layer},
                    {"kernel", model::kernel_kind_name(row.kind)},
                    {"calls", static_cast<double>(row.calls) / steps},
                    {"ms", 1e3 * row.seconds / steps},
                    {"share", row.seconds / total},
                    {"gflops", rate(row.flops, row.seconds)},
                    {"gbs", rate(row.bytes, row.seconds)}});
  }
  return list;
}

void print_json(const Options& o, const client::StepBenchResult& r) {
  nlohmann::json j = {{"schema", 1},
                      {"arch", o.bench.arch},
                      {"batch", o.bench.batch},
                      {"threads", o.bench.threads},
                      {"precision", o.precision},
                      {"ranks", o.bench.ranks},
                      {"image_size", o.bench.image_size},
                      {"img_s", r.img_s},
                      {"gflops", r.gflops},
                      {"peak_bytes", r.peak_bytes},
                      {"activation_bytes", r.activation_bytes},
                      {"p50_ms", r.p50_ms},
                      {"p99_ms", r.p99_ms},
                      {"cpu_ms", r.cpu_ms}};
  if (o.bench.profile) j["profile"] = profile_json(r.profile, o.bench.steps);
  std::printf("%s\n", j.dump().c_str());
}

Result<void> bench_step(Options& o) {
  o.bench.dtype = *parse_dtype(o.precision);  // one of three, says the parser
  if (o.bench.profile && o.bench.ranks > 1) {
    return fail(Code::kInvalidArgument, "--profile with {} ranks; it shows one rank, --ranks 1",
                o.bench.ranks);
  }
  NPU_TRY_VOID(client::check_step_bench(o.bench));
  Result<client::StepBenchResult> result;
  if (o.bench.ranks == 1) {
    result = client::run_step_bench(o.bench);
  } else {
    NPU_TRY(const auto daemon, client::open_daemon(o.daemon, nullptr));
    result = client::run_step_bench_ranks(o.bench, daemon.socket);
  }
  if (!result) return tl::unexpected(result.error());
  o.format == Format::kJson ? print_json(o, *result) : print_text(o, *result);
  return {};
}

int run(Options& options, char** argv) {
  // Ranks that share cores must not spin; alone in the machine a pool that spins is faster.
  if (options.bench.ranks > 1 && options.bench.threads > 1) wait_passively(argv);
  const auto done = bench_step(options);
  return done ? 0 : report_error("bench step", done.error());
}

}  // namespace

void add_bench_step(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  client::StepBenchOptions& b = options->bench;
  CLI::App* command = bench.add_subcommand("step", "Time a training step");
  command->description(kAbout);
  command->add_option("--arch", b.arch, "The network, resnet50 if not given")->type_name("NAME");
  command->add_option("--batch", b.batch, "Images of one rank in a step")
      ->check(CLI::Range(1, 65536));
  command->add_option("--threads", b.threads, "Compute threads of one rank")
      ->check(CLI::Range(1, 1024));
  command->add_option("--precision", options->precision, "fp32, fp16 or bf16 activations")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->type_name("TYPE");
  command->add_option("--ranks", b.ranks, "Rank processes; 1 = in this process")
      ->check(CLI::Range(1, 8));
  command->add_option("--image-size", b.image_size, "Height and width")->check(CLI::Range(8, 1024));
  command->add_option("--channels", b.channels, "Of an image, 1 or 3")
      ->check(CLI::IsMember({1, 3}))
      ->type_name("N");
  command->add_option("--classes", b.classes, "Outputs of the classifier")
      ->check(CLI::Range(2, 100'000));
  command->add_option("-n,--iters", b.steps, "Timed steps")->check(CLI::Range(1, 1'000'000));
  command->add_option("-w,--warmup", b.warmup, "Steps before them")
      ->check(CLI::Range(0, 1'000'000));
  command->add_flag("--profile", b.profile, "Also the time of each layer and kernel");
  add_format(*command, options->format);
  add_daemon_choice(*command, options->daemon);
  command->callback(
      [&chosen, options] { chosen = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace npu::cli
