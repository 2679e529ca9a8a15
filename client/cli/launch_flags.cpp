#include "client/cli/launch_flags.hpp"

#include <CLI/CLI.hpp>
#include <string>

namespace npu::cli {
namespace {

using frontend::FlagEffect;
using frontend::FlagFamily;
using frontend::FlagKind;
using frontend::FlagSpec;

std::string about(const FlagSpec& spec) {
  switch (spec.effect) {
    case FlagEffect::kMapped:
      return std::string(spec.about);
    case FlagEffect::kNoEffect:
      return "no effect: " + std::string(spec.about);
    case FlagEffect::kRefused:
      return "refused: " + std::string(spec.about);
  }
  return {};
}

CLI::Option* add(CLI::App& app, const FlagSpec& spec, frontend::Given& given) {
  const std::string spellings(spec.spellings), name(spec.name);
  if (spec.kind == FlagKind::kSwitch) {
    return app.add_flag_function(
        spellings, [&given, name](int64_t count) { given.set(name, count > 0 ? "true" : "false"); },
        about(spec));
  }
  CLI::Option* option = app.add_option_function<std::string>(
      spellings, [&given, name](const std::string& value) { given.set(name, value); }, about(spec));
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->type_name("VALUE");
  if (spec.kind == FlagKind::kOptionalValue) option->expected(0, 1);
  return option;
}

}  // namespace

void add_launch_flags(CLI::App& app, frontend::Given& given) {
  for (const FlagSpec& spec : frontend::flag_specs()) {
    const bool tf = spec.family == FlagFamily::kTf;
    add(app, spec, given)
        ->group(tf ? "TensorFlow's flags, with --profile tf" : "main.py's flags, with DATA_DIR");
  }
}

}  // namespace npu::cli
