// The one way expected failures travel: Result<T> with a code, a full sentence and an exit code.
// Bugs abort through NPU_CHECK; nothing in this project throws on purpose.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace npu {

/// Why an operation failed; the most specific one wins. Values are stable: they travel in messages.
enum class Code : uint8_t {
  kInvalidArgument = 1,
  kNotFound = 2,
  kAlreadyExists = 3,
  kFailedPrecondition = 4,
  kResourceExhausted = 5,
  kUnavailable = 6,
  kDeadlineExceeded = 7,
  kAborted = 8,   // a peer of the run died or left
  kDataLoss = 9,  // a checksum or a format does not hold
  kPermissionDenied = 10,
  kUnimplemented = 11,
  kInternal = 12,
};

/// "invalid_argument", "not_found", ...; "unknown" for values outside the enum.
[[nodiscard]] std::string_view code_name(Code code) noexcept;

/// sysexits(3) values that scripts rely on.
enum class Exit : uint8_t {
  kOk = 0,
  kUsage = 64,
  kBadData = 65,
  kNoInput = 66,
  kNoDaemon = 69,
  kInternal = 70,
  kCannotWrite = 73,
  kIo = 74,
  kBusy = 75,
  kPeerFailed = 76,  // EX_PROTOCOL: another rank of the run failed first
  kPermission = 77,
  kBadConfig = 78,
};

/// The exit code that a program ends with when nothing more specific was chosen.
[[nodiscard]] Exit default_exit(Code code) noexcept;

/// The same for the end of a run, where data_loss says that the memory of a replica was damaged:
/// that is no property of the job's data, and the next attempt may well succeed.
[[nodiscard]] Exit abort_exit(Code code) noexcept;

/// A failure: what was tried, with which values, what was expected, what to do.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  Exit exit = Exit::kInternal;
};

template <typename T>
using Result = tl::expected<T, Error>;

/// Builds the error arm of a Result; the exit code follows from the code.
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> text,
                                         Args&&... args) {
  return tl::unexpected<Error>(
      Error{code, fmt::format(text, std::forward<Args>(args)...), default_exit(code)});
}

/// Same, with an exit code of its own (a config file that does not parse, a disk that is full).
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail_exit(Code code, Exit exit,
                                              fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...), exit});
}

/// "what: No space left on device (errno 28)", with the code and exit that fit the errno.
[[nodiscard]] Error errno_error(int err, std::string what);
[[nodiscard]] tl::unexpected<Error> fail_errno(std::string what);
[[nodiscard]] tl::unexpected<Error> fail_errno(int err, std::string what);

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view detail) noexcept;

}  // namespace npu

/// Aborts with text and location when an invariant of ours is broken, in release too.
#define NPU_CHECK(condition)                                   \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::npu::check_failed(#condition, __FILE__, __LINE__, {}); \
  } while (false)

#define NPU_CHECK_MSG(condition, detail)                             \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::npu::check_failed(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)

#define NPU_CONCAT_(a, b) a##b
#define NPU_CONCAT(a, b) NPU_CONCAT_(a, b)

/// NPU_TRY(auto x, f()); declares x from a Result or returns its error.
#define NPU_TRY(declaration, expression)                                           \
  auto NPU_CONCAT(npu_try_, __LINE__) = (expression);                              \
  if (!NPU_CONCAT(npu_try_, __LINE__)) [[unlikely]]                                \
    return tl::make_unexpected(std::move(NPU_CONCAT(npu_try_, __LINE__).error())); \
  declaration = std::move(*NPU_CONCAT(npu_try_, __LINE__))

/// NPU_TRY_VOID(f()); returns the error of a Result<void>.
#define NPU_TRY_VOID(expression)                               \
  do {                                                         \
    if (auto npu_try_ = (expression); !npu_try_) [[unlikely]]  \
      return tl::make_unexpected(std::move(npu_try_.error())); \
  } while (false)
