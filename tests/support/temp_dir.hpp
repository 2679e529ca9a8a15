// A directory that is removed with everything in it, also when the test fails.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace npu::test {

class TempDir {
 public:
  TempDir() {
    char pattern[] = "/tmp/npu-test-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~TempDir() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace npu::test
