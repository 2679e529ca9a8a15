// Registers the flags of main.py and of TensorFlow's ResNet on `npu launch`.
#pragma once

#include "client/frontend/flags.hpp"

namespace CLI {
class App;
}

namespace npu::cli {

/// What is given on the command line goes to `given`, which lives as long as `app`; of a flag that
/// is repeated the last value counts, as argparse has it.
void add_launch_flags(CLI::App& app, frontend::Given& given);

}  // namespace npu::cli
