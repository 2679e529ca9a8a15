#include "shm/base/failpoint.hpp"

#ifndef NPU_NO_FAILPOINTS

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "shm/base/units.hpp"

namespace npu::failpoint {
namespace {

constexpr size_t kMaxPoints = 16;
constexpr size_t kMaxName = 63;

/// What one entry of the environment asks for.
struct Point {
  std::array<char, kMaxName + 1> name{};
  size_t name_length = 0;
  Action action = Action::kNone;
  int error = 0;
  uint64_t sleep_ns = 0;
  uint64_t hit = 1;  // 0: every passage
  std::atomic<uint64_t> passages{0};
};

/// Written by arm(), which publishes them by the release of `armed_points`.
std::array<Point, kMaxPoints> points;
std::atomic<size_t> armed_points{0};

struct ErrorNumber {
  std::string_view name;
  int value;
};

constexpr std::array kErrorNumbers = {
    ErrorNumber{"EACCES", EACCES},         ErrorNumber{"EAGAIN", EAGAIN},
    ErrorNumber{"ECONNRESET", ECONNRESET}, ErrorNumber{"EDQUOT", EDQUOT},
    ErrorNumber{"EINTR", EINTR},           ErrorNumber{"EIO", EIO},
    ErrorNumber{"EMFILE", EMFILE},         ErrorNumber{"ENFILE", ENFILE},
    ErrorNumber{"ENOENT", ENOENT},         ErrorNumber{"ENOMEM", ENOMEM},
    ErrorNumber{"ENOSPC", ENOSPC},         ErrorNumber{"EPERM", EPERM},
    ErrorNumber{"EPIPE", EPIPE},           ErrorNumber{"EROFS", EROFS}};

struct PlainAction {
  std::string_view name;
  Action action;
};

constexpr std::array kPlainActions = {
    PlainAction{"kill", Action::kKill}, PlainAction{"stop", Action::kStop},
    PlainAction{"segv", Action::kSegv}, PlainAction{"close", Action::kClose},
    PlainAction{"garbage", Action::kGarbage}};

tl::unexpected<Error> wrong(std::string_view entry, std::string_view what) {
  return fail(
      Code::kInvalidArgument,
      "environment: NPU_FAILPOINTS entry '{}': {}; write [rankN/]name=action[:arg][@hit] with "
      "kill, stop, segv, close, garbage, sleep:200ms or errno:ENOSPC, and a hit of 1, 2, ... or "
      "every",
      entry, what);
}

template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int error_number(std::string_view text) {
  for (const ErrorNumber& known : kErrorNumbers) {
    if (known.name == text) return known.value;
  }
  const auto value = to_number<int>(text);
  return value && *value > 0 ? *value : 0;
}

Result<void> parse_action(std::string_view text, std::string_view entry, Point& point) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view argument = colon == text.npos ? "" : text.substr(colon + 1);
  if (name == "sleep") {
    const auto limit = parse_duration(argument);
    if (!limit) return wrong(entry, "the time to sleep is no duration");
    point.action = Action::kSleep;
    point.sleep_ns = static_cast<uint64_t>(limit->count()) * 1'000'000;
    return {};
  }
  if (name == "errno") {
    point.action = Action::kErrno;
    point.error = error_number(argument);
    if (point.error == 0) return wrong(entry, "no such error number");
    return {};
  }
  for (const PlainAction& known : kPlainActions) {
    if (known.name != name) continue;
    if (colon != text.npos) return wrong(entry, "this action takes no argument");
    point.action = known.action;
    return {};
  }
  return wrong(entry, "no such action");
}

bool name_holds(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == name.npos;
}

/// Fills `point`; false when the entry is meant for another rank.
Result<bool> parse_entry(std::string_view entry, int rank, Point& point) {
  std::string_view rest = entry;
  bool ours = true;
  if (const size_t slash = rest.find('/'); slash != rest.npos) {
    std::string_view prefix = rest.substr(0, slash);
    if (!prefix.starts_with("rank")) return wrong(entry, "only rankN stands before a slash");
    const auto wanted = to_number<int>(prefix.substr(4));
    if (!wanted || *wanted < 0) return wrong(entry, "the rank is no number");
    ours = *wanted == rank;
    rest.remove_prefix(slash + 1);
  }
  const size_t equals = rest.find('=');
  if (equals == rest.npos) return wrong(entry, "it names no action");
  const std::string_view name = rest.substr(0, equals);
  if (!name_holds(name)) return wrong(entry, "the name must be 1 to 63 of a-z 0-9 _ .");
  rest.remove_prefix(equals + 1);
  point.hit = 1;
  if (const size_t at = rest.find('@'); at != rest.npos) {
    const std::string_view hit = rest.substr(at + 1);
    const auto number = to_number<uint64_t>(hit);
    if (hit != "every" && (!number || *number == 0)) return wrong(entry, "the hit is no number");
    point.hit = hit == "every" ? 0 : *number;
    rest = rest.substr(0, at);
  }
  point.error = 0;
  point.sleep_ns = 0;
  NPU_TRY_VOID(parse_action(rest, entry, point));
  name.copy(point.name.data(), kMaxName);
  point.name_length = name.size();
  point.passages.store(0, std::memory_order_relaxed);
  return ours;
}

void sleep_for(uint64_t ns) noexcept {
  timespec left{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void carry_out(const Point& point) noexcept {
  switch (point.action) {
    case Action::kKill:
      (void)::kill(::getpid(), SIGKILL);
      for (;;) ::pause();  // the signal may reach another thread first
    case Action::kStop:
      // To this thread: sent to the process, another one may take it while this one goes on.
      (void)::raise(SIGSTOP);
      return;
    case Action::kSegv:
      // The default action, whatever a sanitizer or a program put in its place.
      (void)::signal(SIGSEGV, SIG_DFL);
      (void)::raise(SIGSEGV);
      return;
    case Action::kSleep:
      sleep_for(point.sleep_ns);
      return;
    default:
      return;  // the place does it
  }
}

}  // namespace

Result<void> arm(std::string_view text, int rank) {
  armed.store(false, std::memory_order_relaxed);
  armed_points.store(0, std::memory_order_relaxed);
  size_t n = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    text = comma == text.npos ? "" : text.substr(comma + 1);
    if (n == kMaxPoints) return wrong(entry, "there are more than 16 entries");
    NPU_TRY(const bool ours, parse_entry(entry, rank, points[n]));
    n += ours ? 1 : 0;
  }
  armed_points.store(n, std::memory_order_release);
  armed.store(n != 0, std::memory_order_relaxed);
  return {};
}

Result<void> arm_from_environment() {
  const char* text = std::getenv("NPU_FAILPOINTS");
  if (text == nullptr) return {};
  const char* rank = std::getenv("RANK");
  if (rank == nullptr) rank = std::getenv("RANK_ID");
  return arm(text, rank == nullptr ? -1 : to_number<int>(rank).value_or(-1));
}

Passage pass(std::string_view name) noexcept {
  const size_t n = armed_points.load(std::memory_order_acquire);
  Passage passage;
  for (size_t i = 0; i < n; ++i) {
    Point& point = points[i];
    if (std::string_view(point.name.data(), point.name_length) != name) continue;
    const uint64_t count = point.passages.fetch_add(1, std::memory_order_relaxed) + 1;
    if (point.hit != 0 && point.hit != count) continue;
    const int before = errno;
    carry_out(point);
    errno = before;
    passage = {point.action, point.error};
  }
  return passage;
}

}  // namespace npu::failpoint

#endif
