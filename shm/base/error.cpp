#include "shm/base/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace npu {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kFailedPrecondition:
      return "failed_precondition";
    case Code::kResourceExhausted:
      return "resource_exhausted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
    case Code::kAborted:
      return "aborted";
    case Code::kDataLoss:
      return "data_loss";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

Exit abort_exit(Code code) noexcept {
  return code == Code::kDataLoss ? Exit::kIo : default_exit(code);
}

Exit default_exit(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument:
      return Exit::kUsage;
    case Code::kNotFound:
      return Exit::kNoInput;
    case Code::kAlreadyExists:
      return Exit::kCannotWrite;
    case Code::kFailedPrecondition:
      return Exit::kBadData;
    case Code::kResourceExhausted:
      return Exit::kBusy;
    case Code::kUnavailable:
      return Exit::kNoDaemon;
    case Code::kDeadlineExceeded:
      return Exit::kBusy;
    case Code::kAborted:
      return Exit::kPeerFailed;
    case Code::kDataLoss:
      return Exit::kBadData;
    case Code::kPermissionDenied:
      return Exit::kPermission;
    case Code::kUnimplemented:
      return Exit::kUsage;
    case Code::kInternal:
      return Exit::kInternal;
  }
  return Exit::kInternal;
}

namespace {

struct ErrnoClass {
  Code code;
  Exit exit;
};

ErrnoClass classify(int err) noexcept {
  switch (err) {
    case ENOENT:
    case ENOTDIR:
      return {Code::kNotFound, Exit::kNoInput};
    case EEXIST:
      return {Code::kAlreadyExists, Exit::kCannotWrite};
    case EACCES:
    case EPERM:
      return {Code::kPermissionDenied, Exit::kPermission};
    case ENOSPC:
    case EDQUOT:
    case EROFS:
      return {Code::kResourceExhausted, Exit::kCannotWrite};
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return {Code::kResourceExhausted, Exit::kBusy};
    case EIO:
      return {Code::kDataLoss, Exit::kIo};
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return {Code::kUnavailable, Exit::kNoDaemon};
    case ETIMEDOUT:
      return {Code::kDeadlineExceeded, Exit::kBusy};
    default:
      return {Code::kInternal, Exit::kInternal};
  }
}

}  // namespace

Error errno_error(int err, std::string what) {
  const ErrnoClass c = classify(err);
  // generic_category().message is strerror without its shared buffer.
  return Error{c.code,
               fmt::format("{}: {} (errno {})", what, std::generic_category().message(err), err),
               c.exit};
}

tl::unexpected<Error> fail_errno(int err, std::string what) {
  return tl::unexpected<Error>(errno_error(err, std::move(what)));
}

tl::unexpected<Error> fail_errno(std::string what) { return fail_errno(errno, std::move(what)); }

void check_failed(const char* condition, const char* file, int line,
                  std::string_view detail) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%.*s\n", file, line, condition,
               detail.empty() ? "" : ": ", static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace npu
