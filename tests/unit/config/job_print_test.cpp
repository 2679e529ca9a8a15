#include <gmock/gmock.h>

#include <cmath>

#include "config/schema.hpp"
#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::HasSubstr;

// A job in which no key holds its default, but for nesterov and schedule.warmup_form, which profile
// tf does not have.
Job unusual() {
  Job job;
  job.name = "0-odd_name.x";
  job.devices = {1, 3, 6};
  job.seed = 18'446'744'073'709'551'615u;
  job.profile = Profile::kTf;
  job.model = {"resnet152",      7,   true, "/weights: \"odd\"\n#\\.safetensors", true,
               BnBuffers::kMean, true};
  job.data = {.format = DataFormat::kIdx,
              .path = "null",
              .workers = 0,
              .augment = Augment::kImagenet,
              .bad_image = BadImage::kReplace,
              .exif = Exif::kApply,
              .image_size = 9,
              .val_resize = 11,
              .mean = {0.1 + 0.2, -1},
              .std = {1.0 / 3, 5e-324},
              .label_offset = 1,
              .cache_bytes = 123'457,
              .pin_memory = true,
              .train_samples = 77'777,
              .val_samples = 3,
              .channels = 2};
  job.train = {.epochs = 7,
               .batch_size = 999,
               .print_freq = 1,
               .start_epoch = 3,
               .stop_after_steps = 1'234'567'890'123,
               .eval_every = 2,
               .target_acc1 = 76.1,
               .evaluate = true,
               .nan_loss = NanLoss::kContinue,
               .accumulate = 3,
               .label_smoothing = 0.1,
               .ema_decay = 0.99};
  job.optimizer = {0.1 + 0.2, 1.0 / 3, 5e-324, false, false, 2.5};
  job.schedule = {.kind = ScheduleKind::kCosine,
                  .warmup_epochs = 2,
                  .warmup_start = 0.25,
                  .end_lr = 1e-5,
                  .per_step = true,
                  .step_size = 5,
                  .gamma = 1e-7,
                  .milestones = {1, 2, 40}};
  job.precision = {true, "bf16", 0, 128, 7, 9};
  job.collectives = {Algorithm::kDirect, "fp16", 123'457, std::chrono::milliseconds(1500)};
  job.checkpoint = {0, 9, 5, 1, ResumeKind::kPath, "./- a: b", {"epochs", "lr"}};
  job.restart = {5, std::chrono::milliseconds(2500)};
  job.output = {"/runs: here", true};
  job.placement = Placement::kOff;
  return job;
}

TEST(PrintJob, LoadsBackToTheSameJob) {
  for (const Job& job : {unusual(), [] {
                           Job j;
                           j.name = "plain";
                           j.optimizer.nesterov = true;
                           return j;
                         }()}) {
    const std::string text = print_job(job);
    const auto sut = load_job_text(text, "printed.yaml");
    ASSERT_TRUE(sut) << sut.error().message << text;
    EXPECT_EQ(print_job(*sut), text);
    EXPECT_EQ(sut->model.pretrained, job.model.pretrained);
    EXPECT_EQ(sut->data.path, job.data.path);
    EXPECT_EQ(sut->optimizer.lr, job.optimizer.lr);
    EXPECT_EQ(sut->optimizer.weight_decay, job.optimizer.weight_decay);
    EXPECT_EQ(sut->seed, job.seed);
    EXPECT_EQ(sut->schedule.milestones, job.schedule.milestones);
    EXPECT_EQ(sut->collectives.timeout, job.collectives.timeout);
    EXPECT_EQ(sut->collectives.bucket_bytes, job.collectives.bucket_bytes);
    EXPECT_EQ(sut->data.std, job.data.std);
    EXPECT_EQ(sut->checkpoint.resume_override, job.checkpoint.resume_override);
    EXPECT_EQ(sut->output.dir, job.output.dir);
    EXPECT_EQ(sut->restart.max_restarts, job.restart.max_restarts);
    EXPECT_EQ(sut->restart.backoff, job.restart.backoff);
    EXPECT_EQ(sut->checkpoint.resume_path, job.checkpoint.resume_path);
    EXPECT_EQ(sut->train.stop_after_steps, job.train.stop_after_steps);
  }
}

TEST(SchemaText, ListsEveryKeyWithADefaultThatLoads) {
  Job job;
  const std::string text = schema_text();
  for (const Field& field : job_fields(job)) {
    EXPECT_THAT(text, HasSubstr(std::string(field.path) + "\n"));
    EXPECT_FALSE(field.doc.empty()) << field.path;
  }
  EXPECT_THAT(text, HasSubstr("collectives.timeout\n    a duration such as 60s, 0 (never) or "
                              "100ms..86400s; default 60s\n"));
}

TEST(KeyDocs, SayOfEveryKeyWhatTheSchemaTextSays) {
  std::string text;
  for (const KeyDoc& sut : job_keys()) {
    text += sut.key + "\n    " + sut.type + "; default " +
            (sut.standard.empty() ? "none" : sut.standard) + "\n    " + sut.about + "\n";
  }
  EXPECT_EQ(text, schema_text());
}

TEST(KeyDocs, HoldTheWordsOfClosedSetsAndNoOthers) {
  for (const KeyDoc& sut : job_keys()) {
    const bool closed = sut.key == "schedule.kind", open = sut.key == "train.epochs";
    if (closed) {
      EXPECT_THAT(sut.choices, testing::Contains("multistep"));
    }
    if (open) {
      EXPECT_THAT(sut.choices, testing::IsEmpty());
    }
  }
}

TEST(JobHash, IgnoresDeviceIdsAndDisplayOnly) {
  const Job job = unusual();
  Job other = job;
  other.devices = {0, 1, 2};
  other.train.print_freq = 50;
  other.data.workers = 9;
  other.restart = {};
  EXPECT_EQ(job_hash(job), job_hash(other));
}

TEST(JobHash, SeesEveryOtherKey) {
  const Job job = unusual();
  Job other = job;
  other.devices = {0, 1};
  EXPECT_NE(job_hash(job), job_hash(other));
  other = job;
  other.optimizer.lr = std::nextafter(job.optimizer.lr, 1.0);
  EXPECT_NE(job_hash(job), job_hash(other));
  other = job;
  other.seed = 1;
  EXPECT_NE(job_hash(job), job_hash(other));
}

TEST(JobHash, IsStableAcrossBuilds) {
  const auto job = load_job_text("name: a", "job.yaml");
  ASSERT_TRUE(job);
  EXPECT_EQ(job_hash(*job), 7860726416810717692u)
      << "changes whenever a hashed key is added: then update this value";
}

}  // namespace
}  // namespace npu::config
