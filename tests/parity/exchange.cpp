#include "exchange.hpp"

#include <sys/wait.h>

#include <cstdio>

namespace npu::parity {
namespace {

std::string output_of(const std::string& command, int& status) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  status = ::pclose(pipe);
  return text;
}

}  // namespace

bool torch_available() {
  static const bool available = [] {
    int status = -1;
    // Finding the module is enough: importing it takes seconds.
    output_of(
        "/usr/bin/python3 -c 'import importlib.util, sys; "
        "sys.exit(importlib.util.find_spec(\"torch\") is None)' 2>&1",
        status);
    return status == 0;
  }();
  return available;
}

Exchange::Exchange()
    : cases_(dir_.path() + "/cases.txt"), values_(dir_.path() + "/values.f32", std::ios::binary) {
  cases_.precision(9);
}

void Exchange::begin(const std::string& kind, const std::string& name, Settings settings) {
  cases_ << "case " << kind << ' ' << name;
  for (const auto& [key, value] : settings) {
    cases_ << ' ' << key << '=' << value;
  }
  cases_ << '\n';
}

void Exchange::input(const std::string& name, std::span<const int64_t> shape,
                     std::span<const float> values) {
  cases_ << "in " << name << " 0";
  tensor(name, shape, values);
}

void Exchange::output(const std::string& name, std::span<const int64_t> shape,
                      std::span<const float> values, double bound) {
  cases_ << "out " << name << ' ' << bound;
  tensor(name, shape, values);
}

void Exchange::tensor(const std::string& name, std::span<const int64_t> shape,
                      std::span<const float> values) {
  uint64_t count = 1;
  cases_ << ' ' << written_;
  for (const int64_t extent : shape) {
    cases_ << ' ' << extent;
    count *= static_cast<uint64_t>(extent);
  }
  cases_ << '\n';
  if (count != values.size()) cases_ << "broken " << name << '\n';
  values_.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(values.size_bytes()));
  written_ += values.size();
}

Verdict Exchange::judge(const std::string& script) {
  cases_.flush();
  values_.flush();
  int status = -1;
  Verdict verdict;
  verdict.text = output_of(
      std::string("/usr/bin/python3 " NPU_PARITY_DIR "/") + script + ' ' + dir_.path() + " 2>&1",
      status);
  verdict.passed = WIFEXITED(status) && WEXITSTATUS(status) == 0 && cases_.good() && values_.good();
  return verdict;
}

}  // namespace npu::parity
