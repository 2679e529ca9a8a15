#include "client/frontend/job_writer.hpp"

#include <gtest/gtest.h>

#include "config/load.hpp"

namespace npu::frontend {
namespace {

TEST(JobWriter, KeysOfASectionStayTogetherInTheOrderOfTheirSections) {
  JobWriter sut;
  sut.set("name", "a");
  sut.set("train.epochs", "2", "--epochs");
  sut.set("data.workers", "1");
  sut.set("train.batch_size", "8");
  EXPECT_EQ(sut.text("head"),
            "# head\nname: a\ntrain:\n  epochs: 2                        # --epochs\n"
            "  batch_size: 8\ndata:\n  workers: 1\n");
}

TEST(JobWriter, NoTextOfAUserBecomesYaml) {
  for (const char* path :
       {"/a b", "/x}, y: {", "/\"q\"", "/back\\slash", "/tab\there", "/line\nbreak",
        "/# no comment", "/ünï", "/null: x", "/'", "/%", "/&a", "/*"}) {
    JobWriter sut;
    sut.set("name", "a");
    sut.set("data.format", "imagefolder");
    sut.set("data.path", config::yaml_scalar(path), path);
    const auto job = config::load_job_text(sut.text(path), "t");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->data.path, path);
  }
}

TEST(RunName, IsOneThatTheLoaderTakes) {
  for (const auto& [data, name] : {std::pair("ImageNet", "resnet50-imagenet"),
                                   {"my photos (1)", "resnet50-my-photos--1-"},
                                   {"", "resnet50-"},
                                   {"bilder-für-alle", "resnet50-bilder-f--r-alle"}}) {
    EXPECT_EQ(run_name("resnet50", data), name);
    const auto job = config::load_job_text("name: " + run_name("resnet50", data), "t");
    EXPECT_TRUE(job) << job.error().message;
  }
  EXPECT_EQ(run_name("r", std::string(100, 'x')).size(), 64u);
  EXPECT_EQ(run_name("-", "."), "run");
}

}  // namespace
}  // namespace npu::frontend
