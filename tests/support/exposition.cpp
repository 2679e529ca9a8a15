#include "tests/support/exposition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

namespace npu::test {
namespace {

bool holds(const Sample& sample, const std::map<std::string, std::string>& labels) {
  return std::ranges::all_of(labels, [&](const auto& wanted) {
    const auto found = sample.labels.find(wanted.first);
    return found != sample.labels.end() && found->second == wanted.second;
  });
}

std::optional<double> number(const std::string& text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  if (text == "Nan" || text == "NaN") return std::nan("");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' ? std::optional(value) : std::nullopt;
}

/// name{a="b",c="d"} value. Escapes in label values: \\ \" \n.
std::optional<Sample> read_sample(const std::string& line) {
  Sample sample;
  size_t i = line.find_first_of("{ ");
  if (i == std::string::npos) return std::nullopt;
  sample.name = line.substr(0, i);
  if (line[i] == '{') {
    ++i;
    while (i < line.size() && line[i] != '}') {
      const size_t equals = line.find("=\"", i);
      if (equals == std::string::npos) return std::nullopt;
      const std::string name = line.substr(i, equals - i);
      std::string value;
      for (i = equals + 2; i < line.size() && line[i] != '"'; ++i) {
        if (line[i] == '\\' && i + 1 < line.size()) {
          ++i;
          value += line[i] == 'n' ? '\n' : line[i];
        } else {
          value += line[i];
        }
      }
      if (!sample.labels.emplace(name, value).second) return std::nullopt;
      ++i;
      if (i < line.size() && line[i] == ',') ++i;
    }
    if (++i >= line.size() || line[i] != ' ') return std::nullopt;
  }
  const auto value = number(line.substr(i + 1));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

std::string key_of(const Sample& sample) {
  std::string key = sample.name;
  for (const auto& [name, value] : sample.labels) key += '\n' + name + '=' + value;
  return key;
}

bool belongs(const std::string& series, const std::string& family, const std::string& type) {
  if (type != "histogram") return series == family;
  return series == family + "_bucket" || series == family + "_sum" || series == family + "_count";
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Exposed read() {
    if (!text_.empty() && text_.back() != '\n') problem("the last line has no end");
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) read_line(line);
    for (const auto& [name, family] : out_.families) judge(name, family);
    return std::move(out_);
  }

 private:
  void problem(const std::string& what) { out_.problems.push_back(what); }

  void read_line(const std::string& line) {
    static const std::regex comment("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)");
    std::smatch found;
    if (std::regex_match(line, found, comment)) {
      const std::string name = found[2];
      if (found[1] == "HELP") {
        if (out_.families.contains(name)) problem(name + ": its lines are not together");
        current_ = name;
        out_.families[name].help = found[3];
      } else if (name != current_) {
        problem(name + ": TYPE does not follow HELP");
      } else {
        out_.families[name].type = found[3];
      }
      return;
    }
    auto sample = read_sample(line);
    if (!sample) return problem("not understood: " + line);
    if (current_.empty() || !belongs(sample->name, current_, out_.families[current_].type)) {
      return problem(sample->name + ": is not of the family '" + current_ + "' that it follows");
    }
    if (!seen_.insert(key_of(*sample)).second) problem("twice: " + line);
    out_.families[current_].samples.push_back(std::move(*sample));
  }

  void judge(const std::string& name, const MetricFamily& family) {
    static const std::regex ours("(npud|process)_[a-z0-9]+(_[a-z0-9]+)*|machine_npu_nums|npu_chip_info_[a-z_]+");
    static const std::regex units(
        "_(ms|us|ns|milliseconds|microseconds|minutes|hours|kb|mb|gb|kib|mib|gib|percent)(_|$)");
    if (!std::regex_match(name, ours)) problem(name + ": the name does not keep to the rules");
    if (family.help.empty()) problem(name + ": no help");
    if (name.starts_with("npud_") && std::regex_search(name, units)) problem(name + ": not a base unit");
    const bool total = name.ends_with("_total");
    if (family.type == "counter" && !total) problem(name + ": a counter ends in _total");
    if (family.type != "counter" && total) problem(name + ": only a counter ends in _total");
    if (family.type != "counter" && family.type != "gauge" && family.type != "histogram") {
      problem(name + ": type '" + family.type + "'");
    }
    for (const Sample& sample : family.samples) judge(name, family, sample);
    if (family.type == "histogram") judge_histogram(name, family);
  }

  void judge(const std::string& name, const MetricFamily& family, const Sample& sample) {
    static const std::regex label("[a-z][a-z0-9_]*");
    for (const auto& [key, value] : sample.labels) {
      const bool le = key == "le" && family.type == "histogram";
      if (!std::regex_match(key, label) || key == "job" || key == "instance" || (key == "le" && !le)) {
        problem(name + ": label '" + key + "'");
      }
      if (value.size() > 100) problem(name + ": a label of " + std::to_string(value.size()) + " characters");
    }
    const bool wrong = std::isnan(sample.value) || sample.value < 0;
    if (family.type != "gauge" && wrong) problem(name + ": below 0, or no number");
    if (name.ends_with("_info") && sample.value != 1) problem(name + ": an info is 1");
    if (name.ends_with("_ratio") && (sample.value < 0 || sample.value > 1)) problem(name + ": a ratio is 0 to 1");
  }

  /// Buckets come in order, grow, and end with +Inf, which is the count.
  void judge_histogram(const std::string& name, const MetricFamily& family) {
    double bound = -std::numeric_limits<double>::infinity(), count = 0;
    bool closed = true;
    for (const Sample& sample : family.samples) {
      if (sample.name == name + "_bucket") {
        if (closed) bound = -std::numeric_limits<double>::infinity(), count = 0;
        const auto le = sample.labels.contains("le") ? number(sample.labels.at("le")) : std::nullopt;
        if (!le || *le <= bound || sample.value < count) problem(name + ": buckets");
        bound = le.value_or(0);
        count = sample.value;
        closed = std::isinf(bound);
      }
    }
    if (!closed) problem(name + ": no bucket +Inf");
    double all = 0, infinite = 0;
    for (const Sample& sample : family.samples) {
      if (sample.name == name + "_count") all += sample.value;
      if (sample.name == name + "_bucket" && sample.labels.contains("le") && sample.labels.at("le") == "+Inf") {
        infinite += sample.value;
      }
    }
    if (all != infinite) problem(name + ": the count is not that of +Inf");
  }

  const std::string& text_;
  Exposed out_;
  std::string current_;
  std::set<std::string> seen_;
};

}  // namespace

std::optional<double> Exposed::value(const std::string& name, const std::map<std::string, std::string>& labels) const {
  std::optional<double> found;
  for (const auto& [family_name, family] : families) {
    if (!belongs(name, family_name, family.type)) continue;
    for (const Sample& sample : family.samples) {
      if (sample.name != name || !holds(sample, labels)) continue;
      if (found) return std::nullopt;
      found = sample.value;
    }
  }
  return found;
}

double Exposed::sum(const std::string& name, const std::map<std::string, std::string>& labels) const {
  double sum = 0;
  for (const auto& [family_name, family] : families) {
    if (!belongs(name, family_name, family.type)) continue;
    for (const Sample& sample : family.samples) {
      if (sample.name == name && holds(sample, labels)) sum += sample.value;
    }
  }
  return sum;
}

size_t Exposed::series() const {
  size_t n = 0;
  for (const auto& [name, family] : families) n += family.samples.size();
  return n;
}

Exposed read_exposition(const std::string& text) { return Reader(text).read(); }

}  // namespace npu::test
