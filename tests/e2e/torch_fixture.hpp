// Fixture of the tests that compare with PyTorch: other programs, and images that both sides make.
#pragma once

#include "e2e_fixture.hpp"

namespace npu::e2e {

/// Values of images by a formula; formula_images of torch_resnet.py has the same bits.
inline std::vector<float> formula_images(size_t values) {
  std::vector<float> images(values);
  for (size_t i = 0; i < values; ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 0x9E3779B9U + 1U;
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    x ^= x >> 16;
    images[i] = static_cast<float>(static_cast<double>(x >> 8) / 8388608.0 - 1.0);
  }
  return images;
}

class TorchTest : public E2eTest {
 protected:
  /// Any program, argv[0] its path.
  Outcome run(const std::vector<std::string>& argv) {
    const std::string out = root_ + "/run.out", err = root_ + "/run.err";
    const UniqueFd out_fd(::open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    const UniqueFd err_fd(::open(err.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    client::ChildSpec spec{.path = argv[0],
                           .argv = argv,
                           .env = env_,
                           .stdout_fd = out_fd.get(),
                           .stderr_fd = err_fd.get()};
    auto child = client::Child::start(spec);
    if (!child) return {};
    const int code = child->wait().code();
    return {code, contents(out), contents(err)};
  }
};

}  // namespace npu::e2e
