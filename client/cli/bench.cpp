// npu bench: collectives timed and checked on real rank processes, in nccl-tests' table or as JSON
// lines.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/bench/collective_bench.hpp"
#include "client/bench/memory_bandwidth.hpp"
#include "client/cli/bench_checkpoint.hpp"
#include "client/cli/bench_data.hpp"
#include "client/cli/bench_step.hpp"
#include "client/cli/command.hpp"
#include "shm/base/units.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Time a collective and check every element on every rank.\n"
    "\n"
    "Operations: all-reduce broadcast reduce all-gather all-gather-v reduce-scatter "
    "reduce-scatter-v scatter gather\n"
    "all-to-all all-to-all-v send-recv (each rank to the next) barrier\n"
    "\n"
    "Examples:\n"
    "  npu bench all-reduce -b 1K -e 64M -f 2\n"
    "  npu bench all-reduce -b 4 -e 64M -f 4 -d fp16 --algo ring -o json\n"
    "  npu bench reduce-scatter -b 25M -e 25M -n 50 --ranks 4\n"
    "  npu bench step --help                             a training step instead\n"
    "  npu bench data --help                             the loader instead\n"
    "  npu bench checkpoint --help                       what saving costs a job\n"
    "\n"
    "time is the median over the iterations of the slowest rank; mem% is the memory traffic that "
    "the operation needs over\n"
    "the time, against the bandwidth of a 1:1 stream measured at the start. Exit code 1 if any "
    "value is wrong.\n";

struct Options {
  std::string op;
  std::string begin = "1K", end = "64M", dtype = "fp32", redop = "sum", algo = "auto";
  client::BenchOptions bench;
  client::DaemonChoice daemon;
  Format format = Format::kText;
};

template <typename T>
Result<T> known(const std::optional<T>& value, const char* what, const std::string& text,
                const char* choices) {
  if (value) return *value;
  return fail(Code::kInvalidArgument, "{} '{}' is not known; one of: {}", what, text, choices);
}

Result<void> resolve(Options& o) {
  NPU_TRY(o.bench.op,
          known(o.op == "send-recv" ? shm::Op::kSend : client::parse_op(o.op), "operation", o.op,
                "all-reduce, broadcast, reduce, all-gather, all-gather-v, reduce-scatter, "
                "reduce-scatter-v, scatter, gather, all-to-all, all-to-all-v, send-recv, barrier"));
  NPU_TRY(
      o.bench.dtype,
      known(parse_dtype(o.dtype), "type", o.dtype,
            "fp32, fp16, bf16, fp64, int8, int16, int32, int64, uint8, uint16, uint32, uint64"));
  NPU_TRY(o.bench.reduce,
          known(parse_reduce_op(o.redop), "reduce op", o.redop, "sum, prod, max, min, mean"));
  if (o.bench.reduce == ReduceOp::kPreMulSum) {
    return fail(Code::kInvalidArgument,
                "reduce op 'premulsum' needs a factor, which this bench does not pass");
  }
  const auto algorithm = client::parse_algorithm(o.algo);
  if (!algorithm) {
    return fail(Code::kInvalidArgument, "algorithm '{}' is not known; one of: auto, ring, direct",
                o.algo);
  }
  o.bench.algorithm = *algorithm;
  NPU_TRY(o.bench.begin_bytes, parse_bytes(o.begin));
  NPU_TRY(o.bench.end_bytes, parse_bytes(o.end));
  if (o.bench.begin_bytes == 0 || o.bench.begin_bytes > o.bench.end_bytes) {
    return fail(Code::kInvalidArgument,
                "sizes from {} to {} are no range; -b must be at least 1 and at most -e", o.begin,
                o.end);
  }
  return {};
}

void print_header(const Options& o, double bandwidth) {
  std::printf("# npu bench %s   ranks %u   dtype %s   op %s   algo %s\n", o.op.c_str(),
              o.bench.ranks, o.dtype.c_str(), o.redop.c_str(), o.algo.c_str());
  std::printf("# warmup %d   iters %d   check 1   time = median over iters of the slowest rank\n",
              o.bench.warmup, o.bench.iterations);
  std::printf("# memory bandwidth of a 1:1 stream: %.1f GB/s\n", bandwidth * 1e-9);
  if (o.bench.ranks > std::thread::hardware_concurrency()) {
    std::printf("# note: %u ranks on %u cores; times include scheduling\n", o.bench.ranks,
                std::thread::hardware_concurrency());
  }
  std::printf("#\n#%11s %12s %6s %6s %10s %10s %8s %8s %6s %7s\n", "size", "count", "type", "redop",
              "time", "p99", "algbw", "busbw", "mem", "#wrong");
  std::printf("#%11s %12s %6s %6s %10s %10s %8s %8s %6s\n", "(B)", "(elements)", "", "", "(us)",
              "(us)", "(GB/s)", "(GB/s)", "(%)");
  std::fflush(stdout);
}

void print_row(const Options& o, const client::BenchRow& r) {
  if (o.format == Format::kJson) {
    const nlohmann::json j = {{"schema", 1},
                              {"op", o.op},
                              {"algo", r.algorithm == shm::Algorithm::kRing ? "ring" : "direct"},
                              {"ranks", o.bench.ranks},
                              {"dtype", o.dtype},
                              {"bytes", r.bytes},
                              {"count", r.count},
                              {"p50_us", r.p50_us},
                              {"p99_us", r.p99_us},
                              {"algbw_gbs", r.algbw_gbs},
                              {"busbw_gbs", r.busbw_gbs},
                              {"mem_fraction", r.mem_fraction},
                              {"wrong", r.wrong}};
    std::printf("%s\n", j.dump().c_str());
  } else {
    std::printf("%12llu %12llu %6s %6s %10.1f %10.1f %8.2f %8.2f %6.1f %7llu\n",
                static_cast<unsigned long long>(r.bytes), static_cast<unsigned long long>(r.count),
                o.dtype.c_str(), o.redop.c_str(), r.p50_us, r.p99_us, r.algbw_gbs, r.busbw_gbs,
                100 * r.mem_fraction, static_cast<unsigned long long>(r.wrong));
  }
  std::fflush(stdout);
}

Result<int> bench(Options& o) {
  NPU_TRY_VOID(resolve(o));
  NPU_TRY(const auto daemon, client::open_daemon(o.daemon, nullptr));
  const double bandwidth =
      client::measure_memory_bandwidth(std::max(1u, std::thread::hardware_concurrency()));
  if (o.format == Format::kText) print_header(o, bandwidth);
  double busbw = 0;
  int rows = 0;
  NPU_TRY(const uint64_t wrong, client::run_collective_bench(daemon.socket, o.bench, bandwidth,
                                                             [&](const client::BenchRow& r) {
                                                               busbw += r.busbw_gbs;
                                                               ++rows;
                                                               print_row(o, r);
                                                             }));
  if (o.format == Format::kText) {
    std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong),
                wrong == 0 ? "OK" : "FAILED");
    std::printf("# Avg bus bandwidth    : %.3f GB/s\n", rows > 0 ? busbw / rows : 0);
  }
  return wrong == 0 ? 0 : 1;
}

int run(Options& options) {
  const auto code = bench(options);
  return code ? *code : report_error("bench", code.error());
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench", "Time a collective, a training step, the loader or checkpoints");
  command->description(kAbout);
  command->add_option("OP", options->op, "The operation")->type_name("");
  command->add_option("-b,--begin", options->begin, "Smallest size")->type_name("BYTES");
  command->add_option("-e,--end", options->end, "Largest size")->type_name("BYTES");
  command->add_option("-f,--factor", options->bench.factor, "Growth from size to size")
      ->check(CLI::Range(1.01, 1024.0));
  command->add_option("-n,--iters", options->bench.iterations, "Timed calls a size")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("-w,--warmup", options->bench.warmup, "Calls before them")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("-d,--dtype", options->dtype, "Element type")->type_name("TYPE");
  command->add_option("--redop", options->redop, "sum, prod, max, min or mean")->type_name("OP");
  command->add_option("--ranks", options->bench.ranks, "Rank processes")->check(CLI::Range(1, 8));
  command->add_option("--algo", options->algo, "auto, ring or direct")->type_name("NAME");
  command->add_flag("--odd", options->bench.odd, "One element more than the size");
  command->add_flag("--unalign", options->bench.unalign,
                    "Start buffers off a line, differently on each rank");
  add_format(*command, options->format);
  add_daemon_choice(*command, options->daemon);
  add_bench_step(*command, chosen);
  add_bench_data(*command, chosen);
  add_bench_checkpoint(*command, chosen);
  command->callback([&chosen, options, command] {
    if (!command->get_subcommands().empty()) return;
    // Not marked as required: the other subcommands have none.
    if (options->op.empty()) throw CLI::RequiredError("OP");
    chosen = [options](char**) { return run(*options); };
  });
}

}  // namespace npu::cli
