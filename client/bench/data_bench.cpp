#include "client/bench/data_bench.hpp"

#include <ctime>
#include <filesystem>
#include <vector>

#include "client/data/loader.hpp"
#include "client/data/open.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {
namespace {

constexpr size_t kSlots = 3;  // as a rank has

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<std::string> folder_of(const DataBenchOptions& o) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(o.path + "/train", ignored)) return o.path;
  NPU_TRY(const data::SplitFolders splits, data::find_splits(o.path));
  return o.val ? splits.val : splits.train;
}

config::Job job_of(const DataBenchOptions& o) {
  config::Job job;
  job.data.format = config::DataFormat::kImageFolder;
  job.data.augment = config::Augment::kImagenet;
  job.data.image_size = o.image_size;
  job.data.bad_image = config::BadImage::kReplace;
  return job;
}

/// Batches without end, the next epoch announced while one runs.
class Stream {
 public:
  Stream(const data::SampleSource& source, data::BatchLoader& loader, int batch)
      : source_(source), loader_(loader), batch_(batch) {
    begin();
  }

  Result<data::Batch> next() {
    NPU_TRY(data::Batch batch, loader_.next());
    if (batch.index >= 0) return batch;
    ++epoch_;
    begin();
    return loader_.next();
  }

 private:
  [[nodiscard]] data::Pass pass(int epoch) const {
    // The sizes were checked: a plan has a batch at least.
    return {&source_, data::train_plan(source_.size(), {.epoch = epoch}, batch_).value(), epoch};
  }
  void begin() {
    loader_.begin(pass(epoch_));
    loader_.announce(pass(epoch_ + 1));
  }

  const data::SampleSource& source_;
  data::BatchLoader& loader_;
  int batch_;
  int epoch_ = 0;
};

Result<void> measure(const DataBenchOptions& o, Stream& stream, data::BatchLoader& loader,
                     DataBenchResult& r) {
  NPU_TRY(const data::Batch warmup, stream.next());
  loader.release(warmup);
  const auto begin = Clock::now();
  const double cpu = cpu_seconds();
  for (int64_t done = 0; o.batches > 0 ? done < o.batches : r.seconds < o.seconds; ++done) {
    NPU_TRY(const data::Batch batch, stream.next());
    r.images += batch.n;
    r.bad_images += batch.bad;
    loader.release(batch);
    r.seconds = seconds_since(begin);
  }
  r.cpu_seconds = cpu_seconds() - cpu;
  r.img_s = static_cast<double>(r.images) / r.seconds;
  r.img_cpu_s = static_cast<double>(r.images) / r.cpu_seconds;
  return {};
}

}  // namespace

Result<DataBenchResult> run_data_bench(const DataBenchOptions& o) {
  DataBenchResult r;
  NPU_TRY(r.path, folder_of(o));
  NPU_TRY(data::ImageFolder folder, data::ImageFolder::scan(r.path));
  r.samples = folder.size();
  r.classes = folder.classes().size();
  if (r.samples < static_cast<uint64_t>(o.batch)) {
    return fail(Code::kInvalidArgument, "read '{}': {} images do not fill one batch of {}", r.path,
                r.samples, o.batch);
  }
  std::optional<data::PictureCache> cache;
  if (o.cache_bytes > 0) {
    NPU_TRY(auto memory, data::PictureMemory::open(-1, folder.size(), o.cache_bytes));
    cache.emplace(std::move(memory), 0);
  }
  const auto source = data::open_folder(std::move(folder), job_of(o), !o.val, std::move(cache));
  const auto batch = static_cast<size_t>(o.batch);
  std::vector<float> images(kSlots * batch * source->shape().elements());
  std::vector<int32_t> labels(kSlots * batch);
  std::vector<data::Slot> slots;
  for (size_t i = 0; i < kSlots; ++i) {
    slots.push_back(
        {images.data() + i * batch * source->shape().elements(), labels.data() + i * batch});
  }
  NPU_TRY(const auto loader, data::BatchLoader::create(slots, {.workers = o.workers}));
  Stream stream(*source, *loader, o.batch);
  NPU_TRY_VOID(measure(o, stream, *loader, r));
  return r;
}

}  // namespace npu::client
