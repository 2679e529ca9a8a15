#include "client/frontend/flags.hpp"

#include <gtest/gtest.h>

#include <set>

namespace npu::frontend {
namespace {

TEST(FlagTable, EveryFlagHasItsOwnNameAndSpellingsAndASentence) {
  std::set<std::string> seen;
  for (const FlagSpec& spec : flag_specs()) {
    EXPECT_TRUE(seen.insert(std::string(spec.name)).second) << spec.name;
    EXPECT_NE(spec.spellings.find("--" + std::string(spec.name)), std::string::npos) << spec.name;
    EXPECT_FALSE(spec.about.empty()) << spec.name;
  }
}

TEST(FlagTable, HasEveryFlagThatTheTwoProgramsAreStartedWith) {
  std::string all;
  for (const FlagSpec& spec : flag_specs()) all += "," + std::string(spec.spellings) + ",";
  for (const char* flag : {"-a",
                           "--arch",
                           "-j",
                           "--workers",
                           "--epochs",
                           "--start-epoch",
                           "-b",
                           "--batch-size",
                           "--lr",
                           "--learning-rate",
                           "--momentum",
                           "--wd",
                           "--weight-decay",
                           "-p",
                           "--print-freq",
                           "--resume",
                           "-e",
                           "--evaluate",
                           "--pretrained",
                           "--seed",
                           "--dummy",
                           "--world-size",
                           "--rank",
                           "--dist-url",
                           "--dist-backend",
                           "--dist_backend",
                           "--multiprocessing-distributed",
                           "--gpu",
                           "--device",
                           "--addr",
                           "--device_list",
                           "--amp",
                           "--loss_scale",
                           "--no-accel",
                           "--data_dir",
                           "--model_dir",
                           "--batch_size",
                           "--train_epochs",
                           "--epochs_between_evals",
                           "--dtype",
                           "--use_synthetic_data",
                           "--single_l2_loss_op",
                           "--enable_tensorboard",
                           "--skip_eval",
                           "--log_steps",
                           "--train_steps",
                           "--num_packs",
                           "--bytes_per_pack",
                           "--all_reduce_alg",
                           "--clean",
                           "--steps_per_loop",
                           "--enable_xla",
                           "--tpu",
                           "--pruning_method"}) {
    EXPECT_NE(all.find("," + std::string(flag) + ","), std::string::npos) << flag;
  }
}

TEST(Given, NumbersAreReadWholeOrRefused) {
  Given sut;
  sut.set("epochs", "12x");
  EXPECT_FALSE(sut.integer("epochs", "1"));
  EXPECT_EQ(*sut.integer("workers", "4"), "4");
  sut.set("lr", "1e-3");
  EXPECT_EQ(*sut.number("lr", "0.1"), "0.001");
  sut.set("lr", "");
  EXPECT_FALSE(sut.number("lr", "0.1"));
}

}  // namespace
}  // namespace npu::frontend
