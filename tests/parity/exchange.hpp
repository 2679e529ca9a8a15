// Hands what the product computed to a script that computes the same with PyTorch and judges the
// difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace npu::parity {

/// True when /usr/bin/python3 has PyTorch; asked once a process.
[[nodiscard]] bool torch_available();

/// What a script printed and whether it found every value within its bound.
struct Verdict {
  bool passed = false;
  std::string text;
};

/// A directory with `cases.txt` (one record a line) and `values.f32` (all tensors, one behind the
/// other), read by exchange.py. A case is a computation: its settings, the tensors that went in,
/// the tensors that came out and how far they may be from PyTorch's, relative to the largest
/// magnitude of the tensor. Thread: one.
class Exchange {
 public:
  Exchange();

  using Settings = std::initializer_list<std::pair<const char*, double>>;
  using Shape = std::initializer_list<int64_t>;

  void begin(const std::string& kind, const std::string& name, Settings settings = {});
  void input(const std::string& name, std::span<const int64_t> shape,
             std::span<const float> values);
  void output(const std::string& name, std::span<const int64_t> shape,
              std::span<const float> values, double bound);
  void input(const std::string& name, Shape shape, std::span<const float> values) {
    input(name, std::span(shape.begin(), shape.size()), values);
  }
  void output(const std::string& name, Shape shape, std::span<const float> values, double bound) {
    output(name, std::span(shape.begin(), shape.size()), values, bound);
  }

  /// Runs tests/parity/`script` on the directory.
  [[nodiscard]] Verdict judge(const std::string& script);

 private:
  void tensor(const std::string& name, std::span<const int64_t> shape,
              std::span<const float> values);

  test::TempDir dir_;
  std::ofstream cases_;
  std::ofstream values_;
  uint64_t written_ = 0;
};

}  // namespace npu::parity
