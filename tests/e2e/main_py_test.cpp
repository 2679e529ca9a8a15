// Jobs that were never files: main.py's flags and a data folder, to the end.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"
#include "tests/unit/client/data/idx_files.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;

class MainPyTest : public E2eTest {
 protected:
  /// A folder of IDX files, 64 images of 16 x 16 and 32 to validate on.
  std::string digits() {
    const std::string folder = root_ + "/digits";
    std::filesystem::create_directory(folder);
    const auto write = [&](const char* prefix, uint32_t n) {
      data::write_plain(folder + "/" + prefix + "-images-idx3-ubyte",
                        data::idx_header(8, {n, 16, 16}) + data::counting(n * 256));
      data::write_plain(folder + "/" + prefix + "-labels-idx1-ubyte",
                        data::idx_header(8, {n}) + data::counting(n, 10));
    };
    write("train", 64);
    write("t10k", 32);
    return folder;
  }
};

TEST_F(MainPyTest, FlagsAndAFolderTrainValidateAndSave) {
  const Outcome got =
      npu({"launch", digits(), "-a", "resnet8",       "-b",  "16", "--epochs", "1",      "--lr",
           "0.05",   "-j",     "2",  "--device_list", "0,1", "-p", "1",        "--seed", "3",
           "-o",     "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  const auto start = last<client::StartEvent>(events);
  const auto done = last<client::DoneEvent>(events);
  ASSERT_TRUE(start && done);
  EXPECT_EQ(start->run, "resnet8-digits");
  EXPECT_EQ(start->world, 2);
  EXPECT_EQ(start->global_batch, 16);
  EXPECT_EQ(done->steps, 4);
  EXPECT_TRUE(std::filesystem::exists(done->checkpoint)) << done->checkpoint;
  EXPECT_THAT(got.err, HasSubstr("=> creating model 'resnet8'"));
}

TEST_F(MainPyTest, ThePrintedJobGivesTheSameBits) {
  const std::string folder = digits();
  const std::vector<std::string> flags = {"launch", folder,  "-a", "resnet8",  "-b",
                                          "16",     "--gpu", "1",  "--epochs", "1"};
  std::vector<std::string> print = flags, run = flags;
  print.emplace_back("--print-job");
  run.insert(run.end(), {"-o", "json"});
  const std::string job_file = file("printed.yaml", npu(print).out);
  const auto by_flags = last<client::DoneEvent>(events_of(npu(run).out));
  const auto by_file =
      last<client::DoneEvent>(events_of(npu({"launch", job_file, "-o", "json"}).out));
  ASSERT_TRUE(by_flags && by_file);
  EXPECT_EQ(by_flags->weights_digest, by_file->weights_digest);
}

TEST_F(MainPyTest, DevicesAreThoseThatAreVisible) {
  const Outcome got =
      npu({"launch", job(), "-o", "json", "--set", "devices=0-1", "--set", "train.epochs=1"},
          {"ASCEND_RT_VISIBLE_DEVICES=3,6,5"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto start = last<client::StartEvent>(events_of(got.out));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->devices, (std::vector<int>{3, 6}));
  EXPECT_THAT(got.err, HasSubstr("is read up to '5'"));
}

TEST_F(MainPyTest, ARankTableGivesTheDevices) {
  const std::string table = file("table.json",
                                 R"({"status":"completed","version":"1.0","server_count":"1",
    "server_list":[{"server_id":"a","device":[{"device_id":"2","rank_id":"0"},
                                              {"device_id":"5","rank_id":"1"}]}]})");
  const Outcome got =
      npu({"launch", digits(), "-a", "resnet8", "-b", "16", "--epochs", "1", "-o", "json"},
          {"RANK_TABLE_FILE=" + table});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(last<client::StartEvent>(events_of(got.out))->devices, (std::vector<int>{2, 5}));
}

}  // namespace
}  // namespace npu::e2e
