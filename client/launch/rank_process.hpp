// One rank as its supervisor sees it: the process and the three pipes that come from it.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "client/launch/child.hpp"
#include "client/launch/failure.hpp"
#include "client/launch/line_splitter.hpp"
#include "client/launch/supervisor.hpp"

namespace npu::client {

/// Thread: the supervisor's.
class RankProcess {
 public:
  enum Stream : uint32_t { kStdout = 0, kStderr = 1, kEvents = 2, kStreams = 3 };
  using OnLine = std::function<void(Stream, std::string_view)>;

  [[nodiscard]] static Result<RankProcess> start(const RankSpec& spec);

  /// -1 once the stream has ended.
  [[nodiscard]] int fd(Stream stream) const noexcept { return pipes_[stream].get(); }
  [[nodiscard]] Child& child() noexcept { return child_; }

  /// Reads what is there, at most one buffer: true when more may come. At the end the stream is
  /// closed.
  bool read(Stream stream, const OnLine& on_line);
  /// Reads everything that is left and closes the streams; for a process that has ended.
  void drain(const OnLine& on_line);

  RankEnd end;  // filled while it runs; complete after it has ended

 private:
  RankProcess(Child child, std::array<UniqueFd, kStreams> pipes)
      : child_(std::move(child)), pipes_(std::move(pipes)) {}

  Child child_;
  std::array<UniqueFd, kStreams> pipes_;
  std::array<LineSplitter, kStreams> splitters_;
};

}  // namespace npu::client
