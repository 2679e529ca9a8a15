// Counts what a program takes from the heap, told apart by who asks for it. Linking it replaces
// malloc and its relatives in that program; it cannot live with a sanitizer, which does the same.
#pragma once

#include <cstdint>
#include <string>

namespace npu::test {

/// Who called the allocator: the nearest caller that is not libc, libstdc++ or the counter itself.
struct AllocationCounts {
  uint64_t library = 0;  // oneDNN and libgomp: bookkeeping of each execution
  uint64_t own = 0;      // everything else
  std::string first;     // of `own`: return addresses, for addr2line
};

/// Starts at zero; all threads of the process count. Thread: one user at a time.
void start_counting();
[[nodiscard]] AllocationCounts stop_counting();

}  // namespace npu::test
