// Runs the scripts that ask Pillow and torchvision, and reads what they say.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/image/decoder.hpp"

namespace npu::parity {

inline constexpr const char* kPython = "/usr/bin/python3 ";

inline bool has_module(const std::string& module) {
  const std::string code =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('" + module + "') is None)";
  return std::system((kPython + ("-c \"" + code + "\"")).c_str()) == 0;
}

/// A script below the sources, its output left alone; true if it ended well.
inline bool run_script(const std::string& script, const std::string& arguments) {
  const std::string command = kPython + std::string(NPU_SOURCE_DIR "/") + script + ' ' + arguments;
  return std::system(command.c_str()) == 0;
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline uint32_t crc(const uint8_t* bytes, size_t size) {
  return static_cast<uint32_t>(::crc32(0, bytes, static_cast<uInt>(size)));
}

/// Of a whole picture.
inline uint32_t crc(const image::Image& image) {
  return crc(image.pixels.data(), static_cast<size_t>(image.region.height) * image.stride());
}

}  // namespace npu::parity
