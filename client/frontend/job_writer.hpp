// Writes the text of a job, one key a line, each with where it came from as a comment.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace npu::frontend {

/// Keys appear in the order in which their sections were first named.
class JobWriter {
 public:
  /// `path` is "seed" or "train.epochs", `value` YAML; `from` becomes a comment unless empty.
  void set(std::string_view path, std::string value, std::string_view from = {});

  /// The whole text, beginning with `head` as a comment.
  [[nodiscard]] std::string text(std::string_view head) const;

 private:
  struct Line {
    std::string leaf, value, from;
  };
  struct Section {
    std::string name;  // empty: top level
    std::vector<Line> lines;
  };
  std::vector<Section> sections_;
};

/// A run's name from words: lower case, what a name cannot hold becomes '-', at most 64.
[[nodiscard]] std::string run_name(std::string_view arch, std::string_view data);

}  // namespace npu::frontend
