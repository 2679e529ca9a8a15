// JSON from untrusted files as a flat stream of events, bounded in depth, with every key visible.
// A document tree would hide duplicate keys and let a hostile file choose how much memory it takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu {

/// Receives the events of one document whose top is an object. A method returns reject("...") to
/// stop.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual bool on_begin_object() = 0;
  virtual bool on_end_object() = 0;
  virtual bool on_begin_array() = 0;
  virtual bool on_end_array() = 0;
  virtual bool on_key(std::string&& key) = 0;
  virtual bool on_string(std::string&& value) = 0;
  virtual bool on_unsigned(uint64_t value) = 0;

  /// Records why the document is refused; always false.
  bool reject(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  std::string problem_;
};

/// Feeds `text` to `handler`. Errors: data_loss "<where>: <problem>" when the text is not one UTF-8
/// JSON object, nests deeper than `max_depth`, holds null, a boolean or a number outside unsigned
/// 64 bits, or when the handler rejects it. Cost: linear, no recursion.
[[nodiscard]] Result<void> read_json(std::string_view text, int max_depth, JsonHandler& handler,
                                     std::string_view where);

/// `text` as a JSON string with its quotes. Errors: invalid_argument when it is not UTF-8.
[[nodiscard]] Result<std::string> json_quote(std::string_view text);

}  // namespace npu
