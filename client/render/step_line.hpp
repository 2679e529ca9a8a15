// A step as a line of JSON without taking memory: a rank sends one after every step.
#pragma once

#include <array>
#include <string_view>

#include "client/render/events.hpp"

namespace npu::client {

/// What event_from_json reads as the same step as to_json's text, and a newline.
class StepLine {
 public:
  explicit StepLine(const StepEvent& step) noexcept;
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;

  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  // 18 fields: a name of 15 characters, four around it, a number of 24.
  std::array<char, 1024> bytes_;
  size_t size_ = 0;
};

}  // namespace npu::client
