#include "client/cli/help_completion.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "client/version.hpp"
#include "config/key_doc.hpp"

namespace npu::cli {
namespace {

// The line is split at blanks: quoted blanks only shift the words before the cursor, and bash's own
// words are cut at
// "=". What is offered replaces what follows the last "=".
constexpr std::string_view kFrame = R"bash(
_npu_offer() {  # WORDS: those that begin with $cur
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_npu_files() {  # [SUFFIX...]: files (with a suffix only such) and folders
  local name suffix
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$cur")
  while read -r name; do
    [[ -d $name ]] && continue
    (($#)) || COMPREPLY+=("$name")
    for suffix; do [[ $name != *"$suffix" ]] || COMPREPLY+=("$name"); done
  done < <(compgen -f -- "$cur")
}

_npu_set() {
  if [[ $cur != *=* ]]; then
    compopt -o nospace 2>/dev/null
    _npu_offer "$(_npu_keys)"
    return
  fi
  local key=${cur%%=*}
  cur=${cur#*=}
  _npu_offer "$(_npu_key_values "$key")"
}

_npu_value() {  # KIND OR WORDS
  case $1 in
    @file) _npu_files ;;
    @set) _npu_set ;;
    @any) ;;
    *) _npu_offer "$1" ;;
  esac
}

_npu() {
  COMPREPLY=()
  local line=${COMP_LINE:0:COMP_POINT} words word cur= command=npu value= i
  read -ra words <<<"$line"
  if [[ $line != *[[:space:]] ]]; then
    cur=${words[-1]}
    unset 'words[-1]'
  fi
  for ((i = 1; i < ${#words[@]}; i++)); do
    word=${words[i]}
    if [[ -n $value ]]; then
      value=
    elif [[ $word == -* ]]; then
      value=$(_npu_option_value "$command $word")
    elif [[ " $(_npu_commands "$command") " == *" $word "* ]]; then
      command+=" $word"
    fi
  done
  if [[ -n $value ]]; then
    _npu_value "$value"
  elif [[ $cur == --*=* ]]; then
    value=$(_npu_option_value "$command ${cur%%=*}")
    cur=${cur#*=}
    [[ -z $value ]] || _npu_value "$value"
  elif [[ $cur == -* ]]; then
    _npu_offer "$(_npu_options "$command")"
  else
    local commands operands
    commands=$(_npu_commands "$command")
    operands=$(_npu_operands "$command")
    if [[ $operands == @job ]]; then
      _npu_files .yaml .yml
    elif [[ $operands == @file ]]; then
      _npu_files
    else
      _npu_offer "$commands $operands"
    fi
  fi
}

complete -F _npu npu
)bash";

std::string value_kind(const HelpOption& option) {
  if (option.value == "KEY=VALUE") return "@set";
  if (!option.choices.empty()) return fmt::format("{}", fmt::join(option.choices, " "));
  const bool path =
      option.value.starts_with("FILE") || option.value == "PATH" || option.value == "DIR";
  return path ? "@file" : "@any";
}

struct Tables {
  std::string commands, options, values, operands;
};

void add(const HelpCommand& command, Tables& tables) {
  const auto row = [](const std::string& pattern, const std::string& words) {
    return fmt::format("    {}) echo '{}' ;;\n", pattern, words);
  };
  const std::string path = fmt::format("'{}'", command.path);
  std::string names, options, operands;
  for (const HelpCommand& sub : command.commands) names += (names.empty() ? "" : " ") + sub.name;
  for (const HelpOption& option : command.options) {
    if (option.positional) {
      const std::string& name = option.names.front();
      const bool job = name == "JOB" || name == "FILE";
      const std::string words = fmt::format("{}", fmt::join(option.choices, " "));
      operands = job ? "@job" : name == "PATH" ? "@file" : words;
      continue;
    }
    std::string patterns;
    for (const std::string& name : option.names) {
      options += (options.empty() ? "" : " ") + name;
      patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : " | ", command.path, name);
    }
    if (!option.value.empty()) tables.values += row(patterns, value_kind(option));
  }
  if (!names.empty()) tables.commands += row(path, names);
  tables.options += row(path, options);
  if (!operands.empty()) tables.operands += row(path, operands);
  for (const HelpCommand& sub : command.commands) add(sub, tables);
}

std::string function(std::string_view name, std::string_view rows) {
  return fmt::format("\n{}() {{\n  case $1 in\n{}  esac\n}}\n", name, rows);
}

}  // namespace

std::string bash_completion(const HelpCommand& program) {
  Tables tables;
  add(program, tables);
  std::string names, values;
  for (const config::KeyDoc& doc : config::job_keys()) {
    names += (names.empty() ? "" : " ") + doc.key + '=';
    std::string words = fmt::format("{}", fmt::join(doc.choices, " "));
    if (words.empty() && doc.type.find("true") != std::string::npos) words = "true false";
    if (!words.empty()) values += fmt::format("    {}) echo '{}' ;;\n", doc.key, words);
  }
  return fmt::format(
             "# bash completion for npu {}, written by the program itself from its own options.\n",
             client::kVersion) +
         function("_npu_commands", tables.commands) + function("_npu_options", tables.options) +
         function("_npu_option_value", tables.values) + function("_npu_operands", tables.operands) +
         fmt::format("\n_npu_keys() {{\n  echo '{}'\n}}\n", names) +
         function("_npu_key_values", values) + std::string(kFrame);
}

}  // namespace npu::cli
