// npu bench checkpoint: what saving costs a job, on the real path: staged in the arena, committed
// by a daemon, durable on the disk.
#include "client/cli/bench_checkpoint.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/bench/checkpoint_bench.hpp"
#include "client/cli/passive_wait.hpp"
#include "client/launch/private_daemon.hpp"
#include "shm/base/units.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Time checkpoints of a job that trains on random data: weights, momentum and buffers.\n"
    "\n"
    "Examples:\n"
    "  npu bench checkpoint --arch resnet50\n"
    "  npu bench checkpoint --arch resnet50 --ranks 8 --batch 2 -n 3 -o json\n"
    "  npu bench checkpoint --arch resnet50 --dir /mnt/disk\n"
    "\n"
    "stall: how long rank 0 is held up by one, the median and the worst. durable: the daemon's "
    "part, from the last\n"
    "rank's commit until files and directories are flushed. slower: how much longer the step "
    "behind a checkpoint\n"
    "takes than others; copying, hashing and writing go on beside it and need processor time, too. "
    "A daemon of its\n"
    "own keeps its store in a temporary directory below --dir (default: where checkpoints go) and "
    "removes it.\n";

struct Options {
  std::string dir;
  client::CheckpointBenchOptions bench;
  Format format = Format::kText;
};

/// Gone with the object, whatever happened.
class TemporaryStore {
 public:
  [[nodiscard]] static Result<TemporaryStore> create(const std::string& dir) {
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    TemporaryStore store;
    store.path_ = dir + "/bench-XXXXXX";
    if (::mkdtemp(store.path_.data()) == nullptr) {
      const int number = errno;
      store.path_.clear();
      return fail_errno(number, fmt::format("create a directory for the store in '{}'", dir));
    }
    return store;
  }
  TemporaryStore(TemporaryStore&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryStore& operator=(TemporaryStore&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryStore() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  TemporaryStore() = default;
  std::string path_;
};

void print_text(const Options& o, const client::CheckpointBenchResult& r) {
  const client::CheckpointBenchOptions& b = o.bench;
  std::printf("# npu bench checkpoint   arch %s   ranks %u   batch %d   threads %d\n",
              b.arch.c_str(), b.ranks, b.batch, b.threads);
  std::printf("# %d checkpoints, one every %d steps\n", b.checkpoints, b.every);
  const unsigned cores = std::thread::hardware_concurrency();
  if (b.ranks * static_cast<unsigned>(b.threads) >= cores) {
    std::printf("# note: %u ranks x %d threads on %u cores; the helper shares them\n", b.ranks,
                b.threads, cores);
  }
  std::printf("#\n#%9s %11s %11s %11s %11s %11s\n", "size", "stall", "worst", "durable", "step",
              "slower");
  std::printf("#%9s %11s %11s %11s %11s %11s\n", "", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)");
  std::printf("%10s %11.2f %11.2f %11.1f %11.1f %11.1f\n", format_bytes(r.bytes).c_str(),
              r.stall_ms, r.stall_max_ms, r.durable_ms, r.step_ms, r.slow_ms);
}

void print_json(const Options& o, const client::CheckpointBenchResult& r) {
  const nlohmann::json j = {{"schema", 1},
                            {"arch", o.bench.arch},
                            {"ranks", o.bench.ranks},
                            {"batch", o.bench.batch},
                            {"threads", o.bench.threads},
                            {"checkpoints", o.bench.checkpoints},
                            {"every", o.bench.every},
                            {"stall_ms", r.stall_ms},
                            {"stall_max_ms", r.stall_max_ms},
                            {"durable_ms", r.durable_ms},
                            {"bytes", r.bytes},
                            {"step_ms", r.step_ms},
                            {"slow_ms", r.slow_ms}};
  std::printf("%s\n", j.dump().c_str());
}

Result<void> bench_checkpoint(Options& o) {
  NPU_TRY(const TemporaryStore store,
          TemporaryStore::create(o.dir.empty() ? client::default_state_dir() : o.dir));
  NPU_TRY(const auto daemon, client::PrivateDaemon::start({.state_dir = store.path()}));
  NPU_TRY(const auto result, client::run_checkpoint_bench(o.bench, daemon->socket()));
  o.format == Format::kJson ? print_json(o, result) : print_text(o, result);
  return {};
}

int run(Options& options, char** argv) {
  if (options.bench.ranks > 1 && options.bench.threads > 1) wait_passively(argv);
  const auto done = bench_checkpoint(options);
  return done ? 0 : report_error("bench checkpoint", done.error());
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  client::CheckpointBenchOptions& b = options->bench;
  CLI::App* command = bench.add_subcommand("checkpoint", "Time checkpoints");
  command->description(kAbout);
  command->add_option("--arch", b.arch, "The network, resnet50 if not given")->type_name("NAME");
  command->add_option("--ranks", b.ranks, "Rank processes")->check(CLI::Range(1, 8));
  command->add_option("--batch", b.batch, "Images of one rank in a step")
      ->check(CLI::Range(1, 65536));
  command->add_option("--threads", b.threads, "Compute threads of one rank")
      ->check(CLI::Range(1, 1024));
  command->add_option("--image-size", b.image_size, "Height and width")->check(CLI::Range(8, 1024));
  command->add_option("--classes", b.classes, "Outputs of the classifier")
      ->check(CLI::Range(2, 100'000));
  command->add_option("-n,--iters", b.checkpoints, "Timed checkpoints")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--every", b.every, "Steps from one to the next")->check(CLI::Range(2, 1000));
  command->add_option("--dir", options->dir, "Where the store is made for the time being")
      ->type_name("DIR");
  add_format(*command, options->format);
  command->callback(
      [&chosen, options] { chosen = [options](char** argv) { return run(*options, argv); }; });
}

}  // namespace npu::cli
