#include "client/cli/help_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "client/launch/rank_env.hpp"
#include "client/version.hpp"
#include "config/key_doc.hpp"

namespace npu::cli {
namespace {

/// `text` as scdoc prints it: nothing in it is markup.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool opens_block =
        out.empty() && (c == '#' || c == '-' || c == '|' || c == '[' || c == ']' || c == ';');
    if (opens_block || c == '\\' || c == '*' || c == '_' || c == '`' || c == '+') out += '\\';
    out += c;
  }
  return out;
}

std::string bold(std::string_view text) { return '*' + plain(text) + '*'; }

/// A help text: what is indented, such as examples, stays as it is; the rest becomes paragraphs.
std::string paragraphs(std::string_view text) {
  std::string out;
  bool literal = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool indented = line.starts_with("  ");
    // A literal block needs an empty line on both sides.
    if (indented != literal) out += literal ? "```\n\n" : "\n```\n";
    literal = indented;
    out += indented ? fmt::format("{}\n", line.substr(2)) : plain(line) + '\n';
  }
  return out + (literal ? "```\n" : "");
}

std::string entry(const HelpOption& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  const std::string value = option.value.empty() ? "" : fmt::format(" _{}_", plain(option.value));
  std::string about = plain(option.about);
  if (!option.range.empty()) about += fmt::format(" ({})", plain(option.range));
  const bool listed = !option.choices.empty() && option.value.find('|') == std::string::npos;
  if (listed) {
    about += fmt::format("; one of: {}", plain(fmt::format("{}", fmt::join(option.choices, ", "))));
  }
  if (about.empty()) about = "See above";
  return fmt::format("{}{}\n\t{}{}\n\n", names, value, about, option.required ? " (required)" : "");
}

std::string options(std::span<const HelpOption> all) {
  std::vector<std::string> groups = {"Positionals", "Options"};
  for (const HelpOption& option : all) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  std::string out;
  for (const std::string& group : groups) {
    std::string entries;
    for (const HelpOption& option : all) {
      const std::string owner = option.positional      ? "Positionals"
                                : option.group.empty() ? "Options"
                                                       : option.group;
      const bool help = std::ranges::find(option.names, "--help") != option.names.end();
      if (owner == group && !help) entries += entry(option);
    }
    const bool titled = group != "Positionals" && group != "Options" && !entries.empty();
    out += (titled ? bold(group) + "\n\n" : "") + entries;
  }
  return out;
}

std::string synopsis(const HelpCommand& command) {
  std::string out = bold(command.path);
  for (const HelpOption& option : command.options) {
    if (option.positional) {
      const std::string name = '_' + plain(option.names.front()) + '_';
      out += option.required ? ' ' + name : " \\[" + name + "\\]";
    }
  }
  return out + " \\[options\\]";
}

std::string commands(const HelpCommand& parent) {
  std::string out;
  for (const HelpCommand& command : parent.commands) {
    out += fmt::format("## {}\n\n", plain(command.path));
    // A command that only has others in it is not called itself.
    const bool itself = command.commands.empty() || command.options.size() > 1;
    if (itself) out += synopsis(command) + "\n\n";
    out += paragraphs(command.about) + '\n' + options(command.options) + commands(command);
  }
  return out;
}

std::string keys(std::span<const config::KeyDoc> docs) {
  std::string out;
  std::string section;
  for (const config::KeyDoc& doc : docs) {
    const size_t dot = doc.key.find('.');
    const std::string owner = dot == std::string::npos ? "" : doc.key.substr(0, dot);
    if (owner != section) out += fmt::format("## {}\n\n", plain(owner));
    section = owner;
    out += fmt::format("{} ({}; default {})\n\t{}\n\n", bold(doc.key), plain(doc.type),
                       plain(doc.standard.empty() ? "none" : doc.standard), plain(doc.about));
  }
  return out;
}

std::string exit_codes() {
  struct Row {
    Exit code;
    std::string_view about;
  };
  constexpr Exit kStopped{client::kExitStopped};
  constexpr std::array<Row, 13> kRows = {
      {{Exit::kOk, "success"},
       {Exit::kUsage, "wrong usage"},
       {Exit::kBadData, "bad data, or replicas that differ"},
       {Exit::kNoInput, "a file that is not there"},
       {Exit::kNoDaemon, "no daemon, or another program that is needed"},
       {Exit::kInternal, "a bug in npu"},
       {Exit::kCannotWrite, "output cannot be written"},
       {Exit::kIo, "input or output failed"},
       {Exit::kBusy, "devices, memory or sessions are in use; try again later"},
       {Exit::kPeerFailed, "another rank failed first"},
       {Exit::kPermission, "not permitted"},
       {Exit::kBadConfig, "a mistake in a job file or in the daemon's file"},
       {kStopped, "stopped by a signal with a durable checkpoint and epochs left"}}};
  std::string out;
  for (const Row& row : kRows)
    out += fmt::format("*{}*\n\t{}\n\n", static_cast<int>(row.code), plain(row.about));
  return out + "*128 + N*\n\tkilled by signal N\n\n";
}

Result<std::string> text_of(std::string_view mark, const HelpFacts& facts) {
  if (mark == "@about@") return paragraphs(facts.program.about);
  if (mark == "@options@") return options(facts.program.options);
  if (mark == "@commands@") return commands(facts.program);
  if (mark == "@job-keys@") return keys(config::job_keys());
  if (mark == "@daemon-keys@") return keys(config::daemon_keys());
  if (mark == "@daemon-options@") return options(facts.daemon_options);
  if (mark == "@exit-codes@") return exit_codes();
  return fail(Code::kDataLoss, "manual page: nothing stands for the mark '{}'", mark);
}

}  // namespace

Result<std::string> fill_page(std::string_view page, const HelpFacts& facts) {
  constexpr std::string_view kVersionMark = "@version@";
  std::string out;
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    std::string line(page.substr(0, end));
    page.remove_prefix(std::min(end + 1, page.size()));
    if (const size_t at = line.find(kVersionMark); at != std::string::npos) {
      line.replace(at, kVersionMark.size(), client::kVersion);
    }
    const bool mark = line.size() > 2 && line.front() == '@' && line.back() == '@';
    if (mark) {
      NPU_TRY(line, text_of(line, facts));
    }
    out += line + '\n';
  }
  return out;
}

}  // namespace npu::cli
