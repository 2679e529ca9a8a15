#include "client/cli/help_tree.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "client/api/collective_env.hpp"
#include "config/key_doc.hpp"
#include "shm/base/dtype.hpp"
#include "shm/submit_data.hpp"

namespace npu::cli {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string between(std::string_view text, std::string_view open, char close) {
  const size_t begin = text.find(open);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + open.size());
  const size_t end = text.find(close);
  return end == std::string_view::npos ? std::string{} : std::string(text.substr(0, end));
}

std::vector<std::string> key_choices(std::string_view key) {
  for (const config::KeyDoc& doc : config::job_keys()) {
    if (doc.key == key) return doc.choices;
  }
  return {};
}

std::vector<std::string> bench_operations() {
  std::vector<std::string> names;
  for (uint8_t i = 1; i < shm::kOpCount; ++i) {
    const auto op = static_cast<shm::Op>(i);
    const bool half = op == shm::Op::kSend || op == shm::Op::kRecv;
    if (!half && client::parse_op(shm::op_name(op))) names.emplace_back(shm::op_name(op));
  }
  names.emplace_back("send-recv");
  return names;
}

std::vector<std::string> reduce_operations() {
  std::vector<std::string> names;
  for (uint8_t i = 0; reduce_op_name(static_cast<ReduceOp>(i)) != "unknown"; ++i) {
    if (static_cast<ReduceOp>(i) != ReduceOp::kPreMulSum) {
      names.emplace_back(reduce_op_name(static_cast<ReduceOp>(i)));
    }
  }
  return names;
}

std::vector<std::string> element_types() {
  std::vector<std::string> names;
  for (uint8_t i = 0; dtype_name(static_cast<DType>(i)) != "unknown"; ++i) {
    names.emplace_back(dtype_name(static_cast<DType>(i)));
  }
  return names;
}

/// Words that are resolved after CLI11 has parsed them, so that it does not know them.
std::vector<std::string> resolved_choices(std::string_view command, const HelpOption& option) {
  const std::string& name = option.names.back();
  if (name == "--arch") return key_choices("model.arch");
  if (command != "npu bench") return {};
  if (name == "--algo") return key_choices("collectives.algorithm");
  if (name == "--redop") return reduce_operations();
  if (name == "--dtype") return element_types();
  if (name == "OP") return bench_operations();
  return {};
}

/// CLI11 appends what its validators say of themselves: "N:INT in [1 - 8]", "TYPE:{fp32,fp16}".
void read_type(std::string_view type, HelpOption& option) {
  option.value = std::string(type.substr(0, type.find(':')));
  if (option.value == "INT" || option.value == "UINT" || option.value == "FLOAT")
    option.value = "N";
  option.range = between(type, " in [", ']');
  if (const size_t dash = option.range.find(" - "); dash != std::string::npos) {
    option.range.replace(dash, 3, " to ");
  }
  option.choices = split(between(type, ":{", '}'), ',');
  if (!option.choices.empty() || option.value.find('|') == std::string::npos) return;
  for (std::string& word : split(option.value, '|')) {
    const bool placeholder = word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos;
    if (!placeholder) option.choices.push_back(std::move(word));
  }
}

HelpOption read_option(std::string_view command, const CLI::Option& from) {
  HelpOption option{.about = from.get_description(),
                    .group = from.get_group(),
                    .positional = from.get_positional(),
                    .required = from.get_required()};
  if (option.positional) {
    option.names = {from.get_name()};
  } else {
    for (const std::string& name : from.get_snames()) option.names.push_back('-' + name);
    for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
    if (from.get_items_expected_max() > 0) read_type(from.get_type_name(), option);
  }
  if (option.choices.empty()) option.choices = resolved_choices(command, option);
  return option;
}

HelpCommand read_command(const CLI::App& app, const std::string& prefix) {
  HelpCommand command{
      .path = prefix + app.get_name(), .name = app.get_name(), .about = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) command.options.push_back(read_option(command.path, *option));
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty())
      command.commands.push_back(read_command(*sub, command.path + ' '));
  }
  return command;
}

}  // namespace

HelpCommand help_tree(const CLI::App& root) { return read_command(root, ""); }

Result<std::vector<HelpOption>> options_of_help(std::string_view text) {
  std::vector<HelpOption> options;
  for (const std::string& line : split(text, '\n')) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    if (begin == 2 && line[2] == '-') {
      const size_t end = std::min(line.find("  ", begin), line.size());
      const std::string head = line.substr(begin, end - begin);
      const size_t blank = std::min(head.find(' '), head.size());
      HelpOption option{.names = split(head.substr(0, blank), ',')};
      if (blank < head.size()) read_type(head.substr(blank + 1), option);
      options.push_back(std::move(option));
      const size_t about = line.find_first_not_of(' ', end);
      if (about != std::string::npos) options.back().about = line.substr(about);
    } else if (begin > 2 && !options.empty()) {
      std::string& about = options.back().about;
      about += (about.empty() ? "" : " ") + line.substr(begin);
    }
  }
  if (options.empty()) {
    return fail(Code::kDataLoss,
                "no option in the help text; it must be what `npud --help` prints");
  }
  return options;
}

}  // namespace npu::cli
