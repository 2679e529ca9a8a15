// How every function of the C interface ends: a Result becomes a number and a sentence that the
// thread can read, and no exception passes.
#pragma once

#include <npu/npu.h>

#include <exception>
#include <new>
#include <utility>

#include "shm/base/error.hpp"

namespace npu::capi {

[[nodiscard]] npu_result_t to_result(Code code) noexcept;

/// Keeps the sentence for npu_last_error and returns the number.
npu_result_t report(const Error& error) noexcept;
npu_result_t report(Code code, const char* sentence) noexcept;

/// Runs `body`, which returns a Result<void>.
template <typename Body>
[[nodiscard]] npu_result_t call(const char* what, Body&& body) noexcept {
  try {
    const Result<void> done = std::forward<Body>(body)();
    return done ? NPU_SUCCESS : report(done.error());
  } catch (const std::bad_alloc&) {
    return report(Code::kResourceExhausted, "the process is out of memory; use less of it");
  } catch (const std::exception& e) {
    return report(Code::kInternal, e.what());
  } catch (...) {
    return report(Code::kInternal, what);
  }
}

}  // namespace npu::capi
