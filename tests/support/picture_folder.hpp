// A temporary folder of small image files, written as PPM so that the test needs no encoder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace npu::test {

class PictureFolder {
 public:
  PictureFolder() {
    std::string pattern = testing::TempDir() + "npu-pictures-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~PictureFolder() { std::filesystem::remove_all(root_); }
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }

  std::string file(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  /// A picture whose pixels are value(y, x, c).
  std::string picture(const std::string& name, int width, int height,
                      const std::function<int(int, int, int)>& value) const {
    std::string bytes = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < 3; ++c) bytes += static_cast<char>(value(y, x, c));
      }
    }
    return file(name, bytes);
  }

  /// One grey level.
  std::string plain(const std::string& name, int level, int side = 16) const {
    return picture(name, side, side, [level](int, int, int) { return level; });
  }

 private:
  std::string root_;
};

}  // namespace npu::test
