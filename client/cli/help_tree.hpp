// What the program says about itself, read from CLI11's tree: manual pages and completion are made
// of it, so they cannot differ from what is parsed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace CLI {
class App;
}

namespace npu::cli {

struct HelpOption {
  std::vector<std::string> names;  // "-o", "--output"; a positional has one without dashes
  std::string value;  // "KEY=VALUE", "text|json"; empty for a switch and for a positional
  std::string range;  // "1 to 8"; empty if any value is parsed
  std::string about;
  std::string group;
  std::vector<std::string> choices;  // every word that is accepted, where they are few
  bool positional = false;
  bool required = false;
};

struct HelpCommand {
  std::string path;   // "npu bench step"
  std::string name;   // "step"
  std::string about;  // its first line is a summary
  std::vector<HelpOption> options;
  std::vector<HelpCommand> commands;

  [[nodiscard]] std::string_view summary() const noexcept {
    return std::string_view(about).substr(0, about.find('\n'));
  }
};

/// Hidden subcommands and options are left out.
[[nodiscard]] HelpCommand help_tree(const CLI::App& root);

/// The options of another program, from the text that CLI11 prints for --help. Errors: data_loss if
/// there is none in it.
[[nodiscard]] Result<std::vector<HelpOption>> options_of_help(std::string_view text);

}  // namespace npu::cli
