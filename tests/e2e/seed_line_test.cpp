// The launch line of the document that people come with, on a small folder of photos: trains on
// eight devices in mixed precision, validates, saves.
#include <gtest/gtest.h>

#include <algorithm>

#include "e2e_fixture.hpp"

namespace npu::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 8, kTrain = 8, kVal = 2;  // images a class

class SeedLineTest : public E2eTest {
 protected:
  /// Real photos where they are at hand, else made-up ones.
  std::string photos() {
    const std::vector<fs::path> sources = unpacked();
    const std::string folder = root_ + "/photos";
    size_t next = 0;
    for (int c = 0; c < kClasses; ++c) {
      for (int i = 0; i < kTrain + kVal; ++i, ++next) {
        const std::string at = folder + (i < kTrain ? "/train/" : "/val/") + "class" +
                               std::to_string(c) + "/" + std::to_string(i);
        fs::create_directories(fs::path(at).parent_path());
        if (next < sources.size()) {
          fs::copy_file(sources[next], at + ".jpg");
        } else {
          write_ppm(at + ".ppm", c, i);
        }
      }
    }
    return folder;
  }

 private:
  std::vector<fs::path> unpacked() const {
    std::vector<fs::path> found;
    if (!fs::exists(NPU_PHOTOS)) return found;
    const std::string into = root_ + "/tar";
    fs::create_directory(into);
    auto tar = client::Child::start(
        {.path = "/bin/tar", .argv = {"tar", "-xf", NPU_PHOTOS, "-C", into}, .env = env_});
    EXPECT_TRUE(tar && tar->wait().code() == 0);
    for (const auto& entry : fs::recursive_directory_iterator(into)) {
      const std::string end = entry.path().extension().string();
      if (end == ".JPEG" || end == ".jpg" || end == ".jpeg") found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }

  /// 240 x 256, another hue a class.
  static void write_ppm(const std::string& path, int c, int i) {
    std::string pixels;
    for (int y = 0; y < 240; ++y) {
      for (int x = 0; x < 256; ++x) {
        pixels += static_cast<char>((c * 31 + x) & 255);
        pixels += static_cast<char>((i * 17 + y) & 255);
        pixels += static_cast<char>((x * y / 64 + c * 7) & 255);
      }
    }
    std::ofstream(path, std::ios::binary) << "P6\n256 240\n255\n" << pixels;
  }
};

TEST_F(SeedLineTest, RunsWithOnlyTheProgramAndThePathChanged) {
  const Outcome got = npu({"launch",
                           photos(),
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
                           "64",
                           "--epochs",
                           "1",
                           "--rank",
                           "0",
                           "--amp",
                           "-o",
                           "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  const auto start = last<client::StartEvent>(events);
  const auto epoch = last<client::EpochEvent>(events);
  const auto done = last<client::DoneEvent>(events);
  ASSERT_TRUE(start && epoch && done);
  EXPECT_EQ(start->run, "resnet50-photos");
  EXPECT_EQ(start->world, 8);
  EXPECT_EQ(start->rank_batch, 8);
  EXPECT_EQ(start->steps_per_epoch, kClasses * kTrain / 64);
  EXPECT_EQ(epoch->val_samples, kClasses * kVal);
  EXPECT_EQ(done->steps, 1);
  EXPECT_TRUE(fs::exists(done->checkpoint)) << done->checkpoint;
}

}  // namespace
}  // namespace npu::e2e
