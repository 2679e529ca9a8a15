// Photos a second through one thread: read, decode, random crop, resize, flip, normalise to fp32.
// First what a second of processor time brings, then of the clock, then how that divides. Run:
// image_bench FOLDER [ROUNDS] [train|val]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "client/data/keyed_random.hpp"
#include "client/image/crop.hpp"
#include "client/image/decoder.hpp"
#include "client/image/resize.hpp"

namespace {

using namespace npu;
using Clock = std::chrono::steady_clock;

constexpr image::Size kCrop{224, 224};
constexpr size_t kValues = size_t{224} * 224 * 3;

double seconds_since(Clock::time_point& start) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - start).count();
  start = now;
  return seconds;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<std::string> files_below(const char* folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// ((x / 255) - mean) / deviation, a look-up a value.
struct Normalizer {
  Normalizer() {
    constexpr float kMean[] = {0.485f, 0.456f, 0.406f};
    constexpr float kDeviation[] = {0.229f, 0.224f, 0.225f};
    for (int c = 0; c < 3; ++c) {
      for (int v = 0; v < 256; ++v) {
        table[c][v] = (static_cast<float>(v) / 255.0f - kMean[c]) / kDeviation[c];
      }
    }
  }
  void apply(const std::vector<uint8_t>& in, bool flipped, std::vector<float>& out) const {
    constexpr size_t kWidth = 224;
    for (size_t i = 0; i < kValues; i += 3) {
      const size_t x = i / 3 % kWidth;
      const size_t from = flipped ? i + 3 * (kWidth - 1 - 2 * x) : i;
      for (size_t c = 0; c < 3; ++c) out[i + c] = table[c][in[from + c]];
    }
  }
  float table[3][256];
};

struct Times {
  double read = 0, decode = 0, resize = 0, normalise = 0;
};

class Pipeline {
 public:
  void one(const std::string& path, uint64_t sample, bool train, Times& times) {
    auto start = Clock::now();
    check(image::read_file(path, bytes_));
    times.read += seconds_since(start);
    const auto size = decoder_.open(bytes_, path);
    check(size);
    uint64_t count = 0;
    auto draw = [&] { return static_cast<uint32_t>(data::keyed_random(sample, 1, count++) >> 32); };
    const image::ResizePlan plan = train ? training_plan(*size, draw) : validation_plan(*size);
    const bool flipped = train && image::flip(draw);
    check(decoder_.decode(needed(plan), image_));
    times.decode += seconds_since(start);
    resizer_.resize(image_, plan, crop_);
    times.resize += seconds_since(start);
    normalizer_.apply(crop_, flipped, values_);
    times.normalise += seconds_since(start);
  }

 private:
  template <typename Draw>
  static image::ResizePlan training_plan(image::Size size, Draw& draw) {
    return image::resize_crop(image::random_resized_crop(size, draw), kCrop);
  }
  static image::ResizePlan validation_plan(image::Size size) {
    const image::Size to = image::resize_shorter(size, 256);
    return {image::whole(size), to, image::center_crop(to, kCrop)};
  }
  template <typename T>
  static void check(const Result<T>& result) {
    if (result) return;
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }

  image::Decoder decoder_;
  image::Resizer resizer_;
  image::Image image_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> crop_ = std::vector<uint8_t>(kValues);
  std::vector<float> values_ = std::vector<float>(kValues);
  Normalizer normalizer_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: image_bench FOLDER [ROUNDS] [train|val]\n");
    return 64;
  }
  const auto files = files_below(argv[1]);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  const bool train = argc <= 3 || std::string(argv[3]) != "val";
  Pipeline pipeline;
  for (int round = 0; round < rounds; ++round) {
    Times t;
    auto start = Clock::now();
    const double cpu_start = cpu_seconds();
    for (size_t i = 0; i < files.size(); ++i) {
      pipeline.one(files[i], i + files.size() * static_cast<size_t>(round), train, t);
    }
    const double cpu = cpu_seconds() - cpu_start;
    const double seconds = seconds_since(start);
    const auto n = static_cast<double>(files.size());
    std::printf(
        "%.1f %.1f images/s; microseconds an image: read %.0f, decode %.0f, resize %.0f, normalise "
        "%.0f\n",
        n / cpu, n / seconds, t.read / n * 1e6, t.decode / n * 1e6, t.resize / n * 1e6,
        t.normalise / n * 1e6);
  }
  return 0;
}
