#include "client/frontend/job_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::frontend {
namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// A comment ends with its line.
std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  return out;
}

}  // namespace

void JobWriter::set(std::string_view path, std::string value, std::string_view from) {
  const size_t dot = path.find('.');
  const std::string_view name =
      dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  auto section = std::ranges::find(sections_, name, &Section::name);
  if (section == sections_.end()) {
    section = sections_.insert(sections_.end(), {std::string(name), {}});
  }
  const std::string_view leaf = dot == std::string_view::npos ? path : path.substr(dot + 1);
  section->lines.push_back({std::string(leaf), std::move(value), one_line(from)});
}

std::string JobWriter::text(std::string_view head) const {
  std::string out = fmt::format("# {}\n", one_line(head));
  for (const Section& section : sections_) {
    if (!section.name.empty()) out += section.name + ":\n";
    for (const Line& line : section.lines) {
      const std::string key =
          fmt::format("{}{}: {}", section.name.empty() ? "" : "  ", line.leaf, line.value);
      out += line.from.empty() ? key + '\n' : fmt::format("{:<34} # {}\n", key, line.from);
    }
  }
  return out;
}

std::string run_name(std::string_view arch, std::string_view data) {
  std::string name = fmt::format("{}-{}", arch, data);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!is_alnum(c) && c != '.' && c != '_') c = '-';
  }
  // It becomes a folder: no hidden one, and nothing that looks like an option.
  const size_t begin = name.find_first_not_of(".-_");
  name = begin == std::string::npos ? "run" : name.substr(begin);
  return name.substr(0, 64);
}

}  // namespace npu::frontend
