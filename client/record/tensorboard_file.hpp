// One TensorBoard event file of a run.
#pragma once

#include <string>

#include "client/record/append_file.hpp"

namespace npu::client {

/// Written by one launch; the next one makes a file of its own. Thread: one at a time.
class TensorboardFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host>[.<n>] in `folder`. With `restart` what older
  /// files say of that step and later ones is taken back. Errors: as open says.
  [[nodiscard]] static Result<TensorboardFile> create(const std::string& folder, double now,
                                                      int64_t next_step, bool restart);

  /// Errors: as write says.
  [[nodiscard]] Result<void> scalar(const std::string& tag, double value, int64_t step, double now);
  [[nodiscard]] Result<void> flush() { return file_.flush(); }

 private:
  explicit TensorboardFile(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

}  // namespace npu::client
