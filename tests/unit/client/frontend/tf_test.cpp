// Flag sets of TensorFlow's ResNet and the job each stands for.
#include <gmock/gmock.h>

#include "tests/unit/client/frontend/given.hpp"

namespace npu::frontend {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

config::Job translated(Flags flags) { return job_of(translate_tf(given(flags), photos())); }

TEST(Tf, DefaultsAreItsRecipe) {
  const config::Job job = translated({{"train_epochs", "90"}});
  EXPECT_EQ(job.name, "resnet50-tf-photos");
  EXPECT_EQ(job.profile, config::Profile::kTf);
  EXPECT_EQ(job.model.arch, "resnet50");
  EXPECT_EQ(job.train.epochs, 90);
  EXPECT_EQ(job.train.batch_size, 32);
  EXPECT_EQ(job.train.print_freq, 100);
  EXPECT_EQ(job.optimizer.lr, 0.1 * 32 / 256);
  EXPECT_EQ(job.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(job.schedule.kind, config::ScheduleKind::kMultistep);
  EXPECT_EQ(job.schedule.warmup_epochs, 5);
  EXPECT_THAT(job.schedule.milestones, ElementsAre(30, 60, 80));
  EXPECT_EQ(job.checkpoint.resume, config::ResumeKind::kAuto);
  EXPECT_FALSE(job.precision.amp);
}

TEST(Tf, ARunMayEndWithinTheWarmUp) { EXPECT_EQ(translated({}).train.epochs, 1); }

TEST(Tf, DtypeDecidesTheLossScaleUnlessGiven) {
  const auto fp16 = translated({{"dtype", "fp16"}}).precision;
  EXPECT_TRUE(fp16.amp);
  EXPECT_EQ(fp16.dtype, "fp16");
  EXPECT_EQ(fp16.loss_scale, 128);
  const auto bf16 = translated({{"dtype", "bf16"}}).precision;
  EXPECT_EQ(bf16.dtype, "bf16");
  EXPECT_EQ(bf16.loss_scale, 1);
  EXPECT_EQ(translated({{"dtype", "fp16"}, {"loss_scale", "dynamic"}}).precision.loss_scale, 0);
  EXPECT_EQ(translated({{"dtype", "fp16"}, {"loss_scale", "256"}}).precision.loss_scale, 256);
}

TEST(Tf, SyntheticDataHasItsClassOfBackground) {
  const config::Job job = translated({{"use_synthetic_data", "true"}, {"batch_size", "64"}});
  EXPECT_EQ(job.name, "resnet50-tf-synthetic");
  EXPECT_EQ(job.model.num_classes, 1001);
  EXPECT_EQ(job.data.image_size, 224);
  EXPECT_EQ(job.data.channels, 3);
}

TEST(Tf, EveryOtherFlagHasItsKey) {
  const config::Job job = translated({{"model_dir", "/runs/first/"},
                                      {"clean", "true"},
                                      {"train_steps", "12"},
                                      {"log_steps", "3"},
                                      {"num_gpus", "4"},
                                      {"enable_tensorboard", "true"},
                                      {"all_reduce_alg", "ring"},
                                      {"bytes_per_pack", "1048576"},
                                      {"label_smoothing", "0.1"},
                                      {"epochs_between_evals", "4"}});
  EXPECT_EQ(job.name, "resnet50-tf-first");
  EXPECT_EQ(job.output.dir, "/runs/first/");
  EXPECT_TRUE(job.output.tensorboard);
  EXPECT_EQ(job.checkpoint.resume, config::ResumeKind::kNever);
  EXPECT_EQ(job.train.epochs, 1);
  EXPECT_EQ(job.train.stop_after_steps, 12);
  EXPECT_EQ(job.train.print_freq, 3);
  EXPECT_EQ(job.train.eval_every, 4);
  EXPECT_EQ(job.train.label_smoothing, 0.1);
  EXPECT_EQ(job.collectives.algorithm, config::Algorithm::kRing);
  EXPECT_EQ(job.collectives.bucket_bytes, 1u << 20);
  EXPECT_THAT(job.devices, ElementsAre(0, 1, 2, 3));
}

TEST(Tf, WhatHasNoEffectIsSaid) {
  const auto made = translate_tf(given({{"single_l2_loss_op", "true"},
                                        {"steps_per_loop", "20"},
                                        {"skip_eval", "true"},
                                        {"loss_scale", "64"}}),
                                 photos());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->remarks, Contains(HasSubstr("--single_l2_loss_op has no effect: the L2 loss")));
  EXPECT_THAT(made->remarks, Contains(HasSubstr("--steps_per_loop has no effect")));
  EXPECT_THAT(made->remarks, Contains(HasSubstr("the last epoch is validated all the same")));
  EXPECT_THAT(made->remarks, Contains(HasSubstr("--loss_scale has no effect with --dtype fp32")));
}

TEST(Tf, RefusesWithOneSentence) {
  const auto refusal = [](const char* flag, const char* value) {
    const auto made = translate_tf(given({{flag, value}}), photos());
    EXPECT_FALSE(made) << flag;
    if (made) return std::string();
    EXPECT_EQ(made.error().exit, Exit::kUsage);
    return made.error().message;
  };
  EXPECT_THAT(refusal("dtype", "fp8"), HasSubstr("expected one of fp32, fp16, bf16"));
  EXPECT_THAT(refusal("enable_xla", "true"), HasSubstr("no XLA compiler"));
  EXPECT_THAT(refusal("tpu", "grpc://x"), HasSubstr("no TPUs here"));
  EXPECT_THAT(refusal("pruning_method", "polynomial_decay"), HasSubstr("pruning does not exist"));
  EXPECT_THAT(refusal("worker_hosts", "a,b"), HasSubstr("all ranks are on this host"));
  EXPECT_THAT(refusal("distribution_strategy", "tpu"), HasSubstr("expected one of off"));
  EXPECT_THAT(refusal("all_reduce_alg", "hierarchical_copy"), HasSubstr("expected one of ring"));
  EXPECT_THAT(refusal("num_gpus", "16"), HasSubstr("this host has 8 devices"));
  EXPECT_THAT(refusal("epochs", "3"), HasSubstr("is a flag of main.py"));
  EXPECT_TRUE(translate_tf(given({{"enable_xla", "false"}}), photos()));
}

}  // namespace
}  // namespace npu::frontend
