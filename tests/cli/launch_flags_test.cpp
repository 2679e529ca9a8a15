// `npu launch` with the flags of main.py and of TensorFlow's ResNet: the job they print, and one
// sentence for each wrong input. Nothing is started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli_fixture.hpp"

namespace npu::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class LaunchFlagsTest : public CliTest {
 protected:
  LaunchFlagsTest() {
    for (const char* folder : {"photos/train/cat", "photos/train/dog", "photos/val/cat"}) {
      std::filesystem::create_directories(root_ + "/" + folder);
    }
  }

  std::string photos() { return root_ + "/photos"; }

  /// The printed job of `npu launch ARGS --print-job`; it has to be one that `npu config` takes.
  std::string printed(std::vector<std::string> args, const std::vector<std::string>& env = {}) {
    args.insert(args.begin(), "launch");
    args.emplace_back("--print-job");
    const Outcome got = npu(args, env);
    EXPECT_EQ(got.code, 0) << got.err;
    said_ = got.err;
    const Outcome back = npu({"config", "print", file("printed.yaml", got.out)});
    EXPECT_EQ(back.code, 0) << back.err;
    return back.out;
  }

  void refused(std::vector<std::string> args, int code, const std::string& words,
               const std::vector<std::string>& env = {}) {
    args.insert(args.begin(), "launch");
    const Outcome got = npu(args, env);
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr(words));
    if (code == 78) return;  // the loader shows the line as well
    EXPECT_THAT(got.err, StartsWith("npu launch: error: "));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }

  std::string said_;
};

TEST_F(LaunchFlagsTest, TheLineOfTheDocumentIsUnderstoodWordForWord) {
  const std::string job = printed({photos(),
                                   "--workers",
                                   "160",
                                   "--lr",
                                   "0.8",
                                   "--arch",
                                   "resnet50",
                                   "--dist-url",
                                   "tcp://127.0.0.1:1234",
                                   "--dist-backend",
                                   "hccl",
                                   "--multiprocessing-distributed",
                                   "--device_list",
                                   "0,1,2,3,4,5,6,7",
                                   "--world-size",
                                   "1",
                                   "--batch-size",
                                   "2048",
                                   "--epochs",
                                   "90",
                                   "--rank",
                                   "0",
                                   "--amp"});
  for (const char* line :
       {"name: resnet50-photos", "devices: [0, 1, 2, 3, 4, 5, 6, 7]", "arch: resnet50",
        "num_classes: 2", "format: imagefolder", "workers: 160", "augment: imagenet", "epochs: 90",
        "batch_size: 2048", "lr: 0.8", "kind: step", "amp: true"}) {
    EXPECT_THAT(job, HasSubstr(line));
  }
  EXPECT_THAT(job, HasSubstr("path: " + photos()));
  EXPECT_THAT(said_, HasSubstr("run 'resnet50-photos': 1 node x 8 devices = 8 ranks"));
  EXPECT_THAT(said_, HasSubstr("=> creating model 'resnet50'"));
  EXPECT_THAT(said_, HasSubstr("--dist-url tcp://127.0.0.1:1234 has no effect"));
}

TEST_F(LaunchFlagsTest, ShortFlagsAndEqualsSignsAreTheSame) {
  EXPECT_EQ(printed({photos(), "-a", "resnet34", "-j", "2", "-b", "64", "-p", "5", "--wd", "0.01",
                     "--learning-rate", "0.2", "-e"}),
            printed({photos(), "--arch=resnet34", "--workers=2", "--batch-size=64",
                     "--print-freq=5", "--weight-decay=0.01", "--lr=0.2", "--evaluate"}));
}

TEST_F(LaunchFlagsTest, MinusOneIsAValue) {
  EXPECT_THAT(printed({photos(), "--amp", "--loss_scale", "-1"}), HasSubstr("loss_scale: dynamic"));
  EXPECT_THAT(printed({photos(), "--world-size", "-1", "--rank", "-1"}), HasSubstr("devices: [0"));
}

TEST_F(LaunchFlagsTest, TheLastOfARepeatedFlagCounts) {
  EXPECT_THAT(printed({photos(), "--epochs", "5", "--epochs", "6"}), HasSubstr("epochs: 6"));
}

TEST_F(LaunchFlagsTest, OverridesGoOverFlags) {
  EXPECT_THAT(printed({photos(), "--epochs", "5", "--set", "schedule.kind=constant"}),
              HasSubstr("kind: constant"));
}

TEST_F(LaunchFlagsTest, AJobFilePrintsItsEffectiveSelf) {
  EXPECT_THAT(printed({job(), "--set", "train.epochs=4"}), HasSubstr("epochs: 4"));
}

TEST_F(LaunchFlagsTest, DummyNeedsNoFolder) {
  EXPECT_THAT(printed({"--dummy", "-a", "resnet18"}), HasSubstr("train_samples: 1281167"));
}

TEST_F(LaunchFlagsTest, TensorFlowsLineIsUnderstood) {
  const std::string job =
      printed({"--profile", "tf", "--data_dir=" + photos(), "--model_dir=/tmp/first",
               "--batch_size=64", "--train_epochs=90", "--dtype=fp16", "--single_l2_loss_op",
               "--enable_tensorboard", "--nouse_synthetic_data"});
  for (const char* line : {"name: resnet50-tf-first", "profile: tf", "batch_size: 64", "amp: true",
                           "loss_scale: 128", "tensorboard: true", "kind: multistep"}) {
    EXPECT_THAT(job, HasSubstr(line));
  }
  EXPECT_THAT(said_, HasSubstr("--single_l2_loss_op has no effect"));
}

TEST_F(LaunchFlagsTest, VisibleDevicesAreAllThereAre) {
  const std::vector<std::string> env = {"ASCEND_RT_VISIBLE_DEVICES=4,5,6,7"};
  EXPECT_THAT(printed({photos()}, env), HasSubstr("devices: [0, 1, 2, 3]"));
  refused({photos(), "--device_list", "0,5"}, 78, "leaves 4,5,6,7 to see", env);
}

TEST_F(LaunchFlagsTest, PlacementThatAnAscendServerRefusesIsAWarning) {
  printed({photos(), "--device_list", "3,4"});
  EXPECT_THAT(said_, HasSubstr("warning: devices: 3, 4 straddle the two rings"));
  printed({photos(), "--device_list", "1,2"});
  EXPECT_THAT(said_, Not(HasSubstr("warning")));
  refused({photos(), "--device_list", "3,4", "--set", "placement=strict"}, 78, "straddle");
  // Where the job's own numbers are good and the host's are not.
  refused({photos(), "--device_list", "0,1", "--set", "placement=strict"}, 78, "straddle",
          {"NPU_VISIBLE_DEVICES=3,4"});
}

TEST_F(LaunchFlagsTest, WrongInputIsOneSentence) {
  refused({}, 64, "JOB is required");
  refused({"--lr", "0.1"}, 64, "DATA_DIR is required");
  refused({photos(), "--lr"}, 64, "--lr");
  refused({photos(), "--lr", "fast"}, 64, "--lr: 'fast' is not a finite number");
  refused({job(), "--lr", "0.1"}, 64, "is a job file; --lr goes with a data folder");
  refused({root_ + "/none", "--lr", "0.1"}, 66, "there is no data folder");
  refused({root_}, 66, "is no data folder");
  refused({photos(), "--device", "gpu"}, 64, "nothing here runs on a GPU");
  refused({photos(), "--no-accel"}, 64, "training without devices does not exist here");
  refused({photos(), "--dist-backend", "nccl"}, 64, "there is no other back end");
  refused({photos(), "--dist-backend", "hccl", "--dist_backend", "nccl"}, 64, "give one");
  refused({photos(), "--addr", "192.168.0.7"}, 64, "all ranks are on this host");
  refused({photos(), "--dist-url", "tcp://127.0.0.1:**"}, 64, "a port of your choice");
  refused({photos(), "--world-size", "2"}, 64, "it counts nodes");
  refused({photos(), "--resume", "checkpoint.pth.tar"}, 66, "no checkpoint found at");
  refused({photos(), "--resume", job()}, 66, "checkpoints are folders");
  refused({photos(), "--pretrained"}, 66, "expected a safetensors file");
  refused({photos(), "--batch-size", "100"}, 78, "use 96 or 104");
  refused({photos(), "--device_list", "0,0,1"}, 78, "device 0 is given twice");
  refused({photos(), "--arch", "vgg16"}, 78, "resnet50");
  refused({photos(), "--train_epochs", "1"}, 64, "add --profile tf");
  refused({photos(), "--profile", "tf", "--epochs", "1"}, 64, "is a flag of main.py");
  refused({photos(), "--profile", "tf", "--enable_xla"}, 64, "no XLA compiler");
  refused({photos(), "--profile", "jax"}, 64, "--profile");
  refused({photos(), "--profile", "tf", "--data_dir", root_}, 64, "give one of them");
}

TEST_F(LaunchFlagsTest, AWrongEnvironmentIsOneSentence) {
  refused({job()}, 64, "RANK is set but WORLD_SIZE, LOCAL_RANK is not", {"RANK=0"});
  refused({job()}, 64, "'**' stands for a port of your choice", {"MASTER_PORT=**"});
  refused({job()}, 64, "all ranks are on this host", {"MASTER_ADDR=10.0.0.1"});
  refused({job()}, 78, "120 to 7200 seconds", {"HCCL_CONNECT_TIMEOUT=1"});
  refused({job()}, 78, "1 to 17340 seconds", {"HCCL_EXEC_TIMEOUT=99999"});
  refused({job()}, 66, "rank table: ", {"RANK_TABLE_FILE=/none.json"});
  refused({job()}, 65, "is not a JSON object", {"RANK_TABLE_FILE=" + file("t.json", "[]")});
  refused({job()}, 64, "RANK_SIZE is set beside RANK_TABLE_FILE",
          {"RANK_TABLE_FILE=/none.json", "RANK_SIZE=2"});
}

}  // namespace
}  // namespace npu::cli
