// Collects everything that is wrong with a file and prints it at once, each with its source line
// and a caret. Knows positions and text only; what is right or wrong is decided by its callers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npu::config {

/// Where a value was written. Lines and columns count from 1, columns in bytes; line 0 = no line to
/// show.
struct Place {
  int source = 0;  // 0 = the file, i > 0 = the i-th override
  int line = 0;
  int column = 0;
  int length = 1;
};

/// Thread: one thread. Ownership: keeps copies of all text it is given.
class Diagnostics {
 public:
  Diagnostics(std::string file_name, std::string_view text, std::span<const std::string> overrides);

  /// `message` starts with the key path; `hint` (may be empty) is printed beside the caret.
  void add(Place place, std::string message, std::string hint = {});

  [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
  [[nodiscard]] size_t size() const noexcept { return found_.size(); }
  [[nodiscard]] const std::string& file_name() const noexcept { return file_name_; }

  /// "job.yaml:3:13", or "--set devices=0-3" for an override.
  [[nodiscard]] std::string place_text(Place place) const;

  /// Every finding in file order, overrides last, then "N errors in F; nothing was started" and
  /// `tail`. At most 50 findings are printed; the count names all of them.
  [[nodiscard]] std::string render(std::string_view tail) const;

 private:
  struct Finding {
    Place place;
    std::string message;
    std::string hint;
  };

  void append_source(std::string& out, const Finding& finding) const;

  std::string file_name_;
  std::vector<std::string> lines_;
  std::vector<std::string> overrides_;
  std::vector<Finding> found_;
};

/// User text for a message: control bytes become '?', at most 60 bytes are kept.
[[nodiscard]] std::string quoted(std::string_view text);

/// The candidate nearest to `word` by edit distance (swaps count one), empty if none is near
/// enough.
[[nodiscard]] std::string_view closest(std::string_view word,
                                       std::span<const std::string_view> candidates);

}  // namespace npu::config
