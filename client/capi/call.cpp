#include "client/capi/call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace npu::capi {
namespace {

// Fixed, so that keeping a sentence cannot fail; as long as the daemon's longest.
thread_local std::array<char, 1024> last_error{};

void keep(std::string_view sentence) noexcept {
  const size_t n = std::min(sentence.size(), last_error.size() - 1);
  std::memcpy(last_error.data(), sentence.data(), n);
  last_error[n] = '\0';
}

}  // namespace

static_assert(NPU_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(NPU_NOT_FOUND == static_cast<int>(Code::kNotFound));
static_assert(NPU_ALREADY_EXISTS == static_cast<int>(Code::kAlreadyExists));
static_assert(NPU_FAILED_PRECONDITION == static_cast<int>(Code::kFailedPrecondition));
static_assert(NPU_RESOURCE_EXHAUSTED == static_cast<int>(Code::kResourceExhausted));
static_assert(NPU_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(NPU_DEADLINE_EXCEEDED == static_cast<int>(Code::kDeadlineExceeded));
static_assert(NPU_ABORTED == static_cast<int>(Code::kAborted));
static_assert(NPU_DATA_LOSS == static_cast<int>(Code::kDataLoss));
static_assert(NPU_PERMISSION_DENIED == static_cast<int>(Code::kPermissionDenied));
static_assert(NPU_UNIMPLEMENTED == static_cast<int>(Code::kUnimplemented));
static_assert(NPU_INTERNAL == static_cast<int>(Code::kInternal));

npu_result_t to_result(Code code) noexcept {
  // A number of a newer daemon is still an error.
  const auto number = static_cast<int>(code);
  if (number < NPU_INVALID_ARGUMENT || number > NPU_INTERNAL) return NPU_INTERNAL;
  return static_cast<npu_result_t>(number);
}

npu_result_t report(Code code, const char* sentence) noexcept {
  keep(sentence);
  return to_result(code);
}

npu_result_t report(const Error& error) noexcept {
  keep(error.message);
  return to_result(error.code);
}

}  // namespace npu::capi

extern "C" const char* npu_last_error(void) { return npu::capi::last_error.data(); }

extern "C" const char* npu_error_string(npu_result_t result) {
  switch (result) {
    case NPU_SUCCESS:
      return "success";
    case NPU_INVALID_ARGUMENT:
      return "invalid argument";
    case NPU_NOT_FOUND:
      return "not found";
    case NPU_ALREADY_EXISTS:
      return "already exists";
    case NPU_FAILED_PRECONDITION:
      return "failed precondition";
    case NPU_RESOURCE_EXHAUSTED:
      return "resource exhausted";
    case NPU_UNAVAILABLE:
      return "unavailable";
    case NPU_DEADLINE_EXCEEDED:
      return "deadline exceeded";
    case NPU_ABORTED:
      return "aborted by another rank";
    case NPU_DATA_LOSS:
      return "data loss";
    case NPU_PERMISSION_DENIED:
      return "permission denied";
    case NPU_UNIMPLEMENTED:
      return "unimplemented";
    case NPU_INTERNAL:
      return "internal error";
    case NPU_RESULT_MAX:
      break;
  }
  return "unknown result";
}
