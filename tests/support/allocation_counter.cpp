#include "tests/support/allocation_counter.hpp"

#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace npu::test {
namespace {

constexpr int kDepth = 24;

/// Code of the objects that decide who asked.
struct Range {
  uintptr_t begin = 0, end = 0;
  [[nodiscard]] bool has(void* p) const noexcept {
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= begin && at < end;
  }
};

std::array<Range, 16> g_library;  // libdnnl, libgomp
std::array<Range, 32> g_runtime;  // libc, libstdc++, libgcc: allocate for their caller
size_t g_libraries = 0, g_runtimes = 0;

std::atomic<bool> g_on{false};
std::atomic<uint64_t> g_by_library{0}, g_by_own{0};
std::array<void*, kDepth> g_first{};
std::atomic<bool> g_first_taken{false};
thread_local bool t_inside = false;

int remember(dl_phdr_info* info, size_t /*size*/, void* /*data*/) {
  const std::string_view path = info->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool library = name.starts_with("libdnnl") || name.starts_with("libgomp");
  const bool runtime = name.starts_with("libc.") || name.starts_with("libstdc++") ||
                       name.starts_with("libgcc") || name.starts_with("ld-linux");
  if (!library && !runtime) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const Range range{info->dlpi_addr + header.p_vaddr,
                      info->dlpi_addr + header.p_vaddr + header.p_memsz};
    if (library && g_libraries < g_library.size()) g_library[g_libraries++] = range;
    if (runtime && g_runtimes < g_runtime.size()) g_runtime[g_runtimes++] = range;
  }
  return 0;
}

bool in(const Range* begin, size_t count, void* p) noexcept {
  for (size_t i = 0; i < count; ++i) {
    if (begin[i].has(p)) return true;
  }
  return false;
}

/// `caller` is where the allocator returns to; the frames inside of it belong to this file.
void count(void* caller) noexcept {
  if (!g_on.load(std::memory_order_relaxed) || t_inside) return;
  t_inside = true;
  std::array<void*, kDepth> frames{};
  const int n = backtrace(frames.data(), kDepth);
  int at = 0;
  while (at < n && frames[static_cast<size_t>(at)] != caller) ++at;
  if (at == n) at = 0;  // not found: blame us, with all frames
  const int outer = at;
  while (at < n && in(g_runtime.data(), g_runtimes, frames[static_cast<size_t>(at)])) ++at;
  const bool library =
      at < n && in(g_library.data(), g_libraries, frames[static_cast<size_t>(at)]);
  (library ? g_by_library : g_by_own).fetch_add(1, std::memory_order_relaxed);
  if (!library && !g_first_taken.exchange(true)) {
    for (int i = outer; i < n; ++i)
      g_first[static_cast<size_t>(i - outer)] = frames[static_cast<size_t>(i)];
  }
  t_inside = false;
}

}  // namespace

void start_counting() {
  std::array<void*, 4> frames{};
  (void)backtrace(frames.data(), 4);  // loads libgcc the first time
  g_libraries = g_runtimes = 0;
  dl_iterate_phdr(remember, nullptr);
  g_by_library = 0;
  g_by_own = 0;
  g_first = {};
  g_first_taken = false;
  g_on = true;
}

AllocationCounts stop_counting() {
  g_on = false;
  AllocationCounts counts{.library = g_by_library, .own = g_by_own, .first = {}};
  for (void* const frame : g_first) {
    if (frame != nullptr) counts.first += fmt::format(" {}", frame);
  }
  return counts;
}

}  // namespace npu::test

// Replacements: libstdc++'s operator new, libc's own callers and every library get here.
extern "C" {

void* malloc(size_t size) {
  npu::test::count(__builtin_return_address(0));
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  npu::test::count(__builtin_return_address(0));
  return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  npu::test::count(__builtin_return_address(0));
  return __libc_realloc(old, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  npu::test::count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

void* memalign(size_t alignment, size_t size) {
  npu::test::count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  npu::test::count(__builtin_return_address(0));
  void* const memory = __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}
