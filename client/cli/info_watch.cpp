#include "client/cli/info_watch.hpp"

#include <fmt/chrono.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "client/cli/alternate_screen.hpp"
#include "client/cli/info_view.hpp"
#include "client/render/full_screen.hpp"
#include "client/render/output.hpp"

namespace npu::cli {
namespace {

constexpr milliseconds kSizeEvery{250};  // as good as SIGWINCH and needs no signal

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string clock_text() { return fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr))); }

class InfoWatch {
 public:
  InfoWatch(Format format, milliseconds every)
      : format_(format),
        every_(every),
        traits_(client::terminal_traits(STDOUT_FILENO)),
        full_(format == Format::kText && traits_.live),
        out_(STDOUT_FILENO),
        screen_(full_) {}

  Result<void> run(InfoProbe& probe, Result<InfoState> state) {
    for (;;) {
      show(state);
      if (out_.broken() == EPIPE) return {};
      if (out_.broken() != 0) return fail_errno(out_.broken(), "write to stdout");
      pause();
      state = probe.look();
    }
  }

 private:
  void show(const Result<InfoState>& state) {
    if (format_ == Format::kJson) {
      out_.write(state ? info_json(*state, wall_time())
                       : info_error_json(state.error(), wall_time()));
    } else if (full_) {
      frame_ =
          fmt::format("Every {:g} s: npu info   {}\n\n{}",
                      std::chrono::duration<double>(every_).count(), clock_text(), body(state));
      draw();
    } else {
      out_.write(fmt::format("{:%Y-%m-%d %H:%M:%S}\n{}\n", fmt::localtime(std::time(nullptr)),
                             body(state)));
    }
  }

  std::string body(const Result<InfoState>& state) {
    if (!state) {
      if (away_since_.empty()) away_since_ = clock_text();
      return fmt::format("no daemon answers since {}, waiting for one: {}\n", away_since_,
                         state.error().message);
    }
    away_since_.clear();
    std::string text = info_table(*state, traits_.colour);
    for (const std::string& warning : state->warnings) text += "warning: " + warning + '\n';
    return text;
  }

  void draw() {
    size_ = client::terminal_size(STDOUT_FILENO);
    out_.write(client::full_screen_frame(frame_, size_));
  }

  /// Until the next refresh; a terminal of another size is drawn at once.
  void pause() {
    const Deadline deadline = Deadline::after(every_);
    while (!deadline.passed()) {
      const auto slice = std::chrono::ceil<milliseconds>(deadline.remaining(kSizeEvery));
      const bool resumed = ::poll(nullptr, 0, static_cast<int>(slice.count())) < 0;
      if (!full_) continue;
      const client::TerminalSize now = client::terminal_size(STDOUT_FILENO);
      if (resumed || now.columns != size_.columns || now.rows != size_.rows) draw();
    }
  }

  Format format_;
  milliseconds every_;
  client::TerminalTraits traits_;
  bool full_;
  client::Output out_;
  AlternateScreen screen_;
  client::TerminalSize size_;
  std::string frame_, away_since_;
};

}  // namespace

Result<void> watch_info(InfoProbe& probe, Format format, milliseconds every) {
  // Before the screen is taken: a mistake is told where the next prompt is.
  auto first = probe.look();
  if (!first) return tl::make_unexpected(std::move(first.error()));
  return InfoWatch(format, every).run(probe, std::move(first));
}

}  // namespace npu::cli
