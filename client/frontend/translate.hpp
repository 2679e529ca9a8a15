// From given flags to the text of a job: pure functions, one a family. Checks only what a flag
// alone can get wrong; ranges and rules across keys are the loader's.
#pragma once

#include <string>
#include <vector>

#include "client/frontend/data_facts.hpp"
#include "client/frontend/flags.hpp"

namespace npu::frontend {

/// What the flags do not say.
struct Surroundings {
  DataFacts data;               // looked at before; unused by synthetic data
  std::string all_devices;      // when no flag names devices: "0-7", or what is visible
  std::string resume_folder;    // --resume as an absolute path, when it is a path
  std::string pretrained_file;  // as an absolute path
};

struct Translation {
  std::string yaml;
  std::vector<std::string> remarks;  // what was accepted without effect, and why
};

/// True when the job is made of synthetic images, so no folder is needed.
[[nodiscard]] bool wants_synthetic(const Given& given) noexcept;

/// main.py's flags. Errors: invalid_argument, exit 64: a number that is none, flags that contradict
/// each other, another back end, host, node or device kind.
[[nodiscard]] Result<Translation> translate_main_py(const Given& given, const Surroundings& around);

/// Flags of TensorFlow's official ResNet, with its recipe. Errors: as above.
[[nodiscard]] Result<Translation> translate_tf(const Given& given, const Surroundings& around);

}  // namespace npu::frontend
