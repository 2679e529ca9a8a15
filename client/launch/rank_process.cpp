#include "client/launch/rank_process.hpp"

#include <unistd.h>

#include <cerrno>

namespace npu::client {

Result<RankProcess> RankProcess::start(const RankSpec& spec) {
  NPU_TRY(Pipe out, make_pipe());
  NPU_TRY(Pipe err, make_pipe());
  NPU_TRY(Pipe events, make_pipe());
  ChildSpec child{.path = spec.path, .argv = spec.argv, .env = spec.env};
  child.env.push_back(fmt::format("NPU_EVENT_FD={}", events.write_end.get()));
  child.stdout_fd = out.write_end.get();
  child.stderr_fd = err.write_end.get();
  child.core = spec.core;
  child.keep_fds = {events.write_end.get()};
  if (spec.pictures_fd >= 0) {
    child.env.push_back(fmt::format("NPU_PICTURES_FD={}", spec.pictures_fd));
    child.keep_fds.push_back(spec.pictures_fd);
  }
  NPU_TRY(Child started, Child::start(child));
  RankProcess process(std::move(started), {std::move(out.read_end), std::move(err.read_end),
                                           std::move(events.read_end)});
  process.end.rank = spec.rank;
  process.end.device = spec.device;
  process.end.pid = process.child_.pid();
  return process;
}

bool RankProcess::read(Stream stream, const OnLine& on_line) {
  UniqueFd& pipe = pipes_[stream];
  if (!pipe.valid()) return false;
  const auto on_stream_line = [&](std::string_view line) { on_line(stream, line); };
  std::array<char, LineSplitter::kCap> buffer;
  const ssize_t n = ::read(pipe.get(), buffer.data(), buffer.size());
  if (n > 0) {
    splitters_[stream].feed({buffer.data(), static_cast<size_t>(n)}, on_stream_line);
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  splitters_[stream].flush(on_stream_line);
  pipe.reset();  // leaves the epoll set by itself: no other descriptor has this open file
  return false;
}

void RankProcess::drain(const OnLine& on_line) {
  for (const Stream stream : {kEvents, kStdout, kStderr}) {
    while (read(stream, on_line)) {
    }
    // A stranger may hold the other end; the rank is gone, so is its output.
    splitters_[stream].flush([&](std::string_view line) { on_line(stream, line); });
    pipes_[stream].reset();
  }
}

}  // namespace npu::client
