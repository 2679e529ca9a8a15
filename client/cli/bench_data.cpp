// npu bench data: images a second that the loader makes of a folder.
#include "client/cli/bench_data.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/bench/data_bench.hpp"
#include "shm/base/units.hpp"

namespace npu::cli {
namespace {

constexpr const char* kAbout =
    "Time the loader of one rank on a folder of images: read, decode, crop, resize, flip, "
    "normalise.\n"
    "\n"
    "Examples:\n"
    "  npu bench data /data/imagenet --workers 2\n"
    "  npu bench data /data/imagenet --workers 2 --val --seconds 10 -o json\n"
    "\n"
    "PATH holds train and val (validation, test), or is itself a folder of classes. Training's "
    "transform is a random\n"
    "resized crop and a flip, validation's a resize to 256/224 of the image size and a centre "
    "crop. No network, no\n"
    "daemon. The first batch is not timed; images that cannot be read are replaced and counted.\n";

struct Options {
  client::DataBenchOptions bench;
  std::string cache = "0";
  bool train = false;
  Format format = Format::kText;
};

void print_text(const Options& o, const client::DataBenchResult& r) {
  std::printf("# npu bench data %s   %s   workers %d   batch %d   image %dx%d\n", r.path.c_str(),
              o.bench.val ? "val" : "train", o.bench.workers, o.bench.batch, o.bench.image_size,
              o.bench.image_size);
  std::printf("# %llu images in %llu classes; %lld read in %.2f s, %lld of them unreadable\n",
              static_cast<unsigned long long>(r.samples),
              static_cast<unsigned long long>(r.classes), static_cast<long long>(r.images),
              r.seconds, static_cast<long long>(r.bad_images));
  std::printf("#\n#%9s %17s\n%10.1f %17.1f\n", "img/s", "img/s of CPU", r.img_s, r.img_cpu_s);
}

void print_json(const Options& o, const client::DataBenchResult& r) {
  const nlohmann::json j = {{"schema", 1},
                            {"path", r.path},
                            {"split", o.bench.val ? "val" : "train"},
                            {"workers", o.bench.workers},
                            {"batch", o.bench.batch},
                            {"image_size", o.bench.image_size},
                            {"samples", r.samples},
                            {"classes", r.classes},
                            {"images", r.images},
                            {"bad_images", r.bad_images},
                            {"seconds", r.seconds},
                            {"img_s", r.img_s},
                            {"img_cpu_s", r.img_cpu_s}};
  std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

Result<void> bench_data(Options& o) {
  NPU_TRY(o.bench.cache_bytes, parse_bytes(o.cache));
  NPU_TRY(const auto result, client::run_data_bench(o.bench));
  o.format == Format::kJson ? print_json(o, result) : print_text(o, result);
  return {};
}

int run(Options& options) {
  const auto done = bench_data(options);
  return done ? 0 : report_error("bench data", done.error());
}

}  // namespace

void add_bench_data(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  client::DataBenchOptions& b = options->bench;
  CLI::App* command = bench.add_subcommand("data", "Time the loader on a folder of images");
  command->description(kAbout);
  command->add_option("PATH", b.path, "The folder")->required()->type_name("");
  command->add_option("--workers", b.workers, "Loader threads; 0 = none, in the main thread")
      ->check(CLI::Range(0, 256));
  command->add_option("--batch", b.batch, "Images of a batch")->check(CLI::Range(1, 65536));
  command->add_option("--image-size", b.image_size, "Height and width that come out")
      ->check(CLI::Range(8, 1024));
  command->add_option("--seconds", b.seconds, "Timed, at least")->check(CLI::Range(0.01, 3600.0));
  command->add_option("--batches", b.batches, "Timed batches instead of seconds")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--cache", options->cache, "Memory for decoded images")->type_name("BYTES");
  CLI::Option* val = command->add_flag("--val", b.val, "Validation's transform and split");
  command->add_flag("--train", options->train, "Training's, the default")->excludes(val);
  add_format(*command, options->format);
  command->callback([&chosen, options] { chosen = [options](char**) { return run(*options); }; });
}

}  // namespace npu::cli
