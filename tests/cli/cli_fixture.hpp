// Runs the real npu binary in an environment of its own and collects what it says.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/launch/child.hpp"

namespace npu::cli {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class CliTest : public testing::Test {
 protected:
  CliTest() {
    std::string name = "/tmp/npu-cli-XXXXXX";
    root_ = ::mkdtemp(name.data());
    // No daemon of the host and no store of the user is seen.
    env_ = {"PATH=/usr/bin:/bin", "HOME=" + root_, "XDG_RUNTIME_DIR=" + root_,
            "XDG_STATE_HOME=" + root_ + "/state", "NPUD_SOCKET=" + root_ + "/none.sock"};
  }
  ~CliTest() override { std::filesystem::remove_all(root_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(root_ + "/" + name) << text;
    return root_ + "/" + name;
  }

  /// A job that is complete; nothing in it is opened before the daemon is found.
  std::string job() {
    return file("job.yaml",
                "name: tiny\ndevices: 0-1\n"
                "model: {arch: resnet20, num_classes: 10}\n"
                "data: {format: synthetic, train_samples: 64, val_samples: 32, image_size: 32, "
                "channels: 3}\n"
                "train: {epochs: 1, batch_size: 16, print_freq: 1}\n"
                "checkpoint: {every_epochs: 1}\n");
  }

  Outcome npu(std::vector<std::string> args, const std::vector<std::string>& more_env = {}) {
    const UniqueFd out(::memfd_create("out", MFD_CLOEXEC)), err(::memfd_create("err", MFD_CLOEXEC));
    args.insert(args.begin(), "npu");
    client::ChildSpec spec{.path = NPU_PATH,
                           .argv = args,
                           .env = env_,
                           .stdout_fd = out.get(),
                           .stderr_fd = err.get()};
    spec.env.insert(spec.env.end(), more_env.begin(), more_env.end());
    auto child = client::Child::start(spec);
    EXPECT_TRUE(child) << child.error().message;
    if (!child) return {};
    return {child->wait().code(), text_of(out.get()), text_of(err.get())};
  }

  std::string root_;
  std::vector<std::string> env_;

 private:
  static std::string text_of(int fd) {
    std::string all(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }
};

}  // namespace npu::cli
