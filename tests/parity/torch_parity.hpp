// Fixture of the comparisons with PyTorch as it runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>

#include "exchange.hpp"

namespace npu::parity {

/// Skips without PyTorch; what is in `exchange_` is judged by one script.
class TorchParity : public testing::Test {
 protected:
  explicit TorchParity(std::string script) : script_(std::move(script)) {}

  void SetUp() override {
    if (!torch_available()) GTEST_SKIP() << "python3-torch is not installed";
  }

  void judge() {
    const Verdict verdict = exchange_.judge(script_);
    ASSERT_TRUE(verdict.passed) << verdict.text;
    std::printf("%s", verdict.text.c_str());
  }

  Exchange exchange_;

 private:
  std::string script_;
};

}  // namespace npu::parity
