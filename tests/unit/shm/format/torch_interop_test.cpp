// A planned file loads in PyTorch with the values that were written; skipped where python3-torch is
// missing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "shm/format/safetensors.hpp"

namespace npu {
namespace {

class TempFile {
 public:
  TempFile() : fd_(::mkostemp(path_, O_CLOEXEC)) {}
  ~TempFile() { ::unlink(path_); }
  [[nodiscard]] const char* path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  char path_[32] = "/tmp/npu-interop-XXXXXX";
  UniqueFd fd_;
};

std::string output_of(const std::string& command, int* status) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) out += buffer;
  *status = ::pclose(pipe);
  return out;
}

TEST(TorchInterop, PlannedFileLoadsWithTheSameValues) {
  int status = -1;
  output_of("/usr/bin/python3 -c 'import torch' 2>/dev/null", &status);
  if (status != 0) GTEST_SKIP() << "python3-torch is not installed";
  const std::vector<TensorSpec> tensors = {{"fc.bias", FileDType::kF32, {3}},
                                           {"bn1.num_batches_tracked", FileDType::kI64, {}},
                                           {"none", FileDType::kF32, {0, 2}},
                                           {"half", FileDType::kF16, {2}}};
  const auto plan = SafetensorsPlan::build(tensors, {{"format", "pt"}});
  ASSERT_TRUE(plan.has_value());
  const int64_t tracked = 7;
  const float bias[3] = {1.5F, -2.0F, 4.0F};
  const uint16_t half[2] = {0x3c00, 0x4000};  // 1, 2
  TempFile file;
  ASSERT_TRUE(write_all(file.fd(), plan->header(), "f").has_value());
  ASSERT_TRUE(write_all(file.fd(), std::as_bytes(std::span(&tracked, 1)), "f").has_value());
  ASSERT_TRUE(write_all(file.fd(), std::as_bytes(std::span(bias)), "f").has_value());
  ASSERT_TRUE(write_all(file.fd(), std::as_bytes(std::span(half)), "f").has_value());

  const std::string out =
      output_of(fmt::format("/usr/bin/python3 {}/safetensors_to_torch.py {} 2>&1",
                            NPU_TEST_SUPPORT_DIR, file.path()),
                &status);

  EXPECT_EQ(status, 0);
  EXPECT_EQ(out,
            "bn1.num_batches_tracked int64 [] 7.0\n"
            "fc.bias float32 [3] 3.5\n"
            "half float16 [2] 3.0\n"
            "none float32 [0, 2] 0.0\n");
}

}  // namespace
}  // namespace npu
