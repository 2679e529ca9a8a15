#include "client/bench/process_usage.hpp"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace npu::client {
namespace {

/// "VmHWM:\t   1234 kB"
std::optional<uint64_t> field(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return std::nullopt;
  const size_t digit = text.find_first_of("0123456789", at + name.size());
  if (digit == std::string::npos) return std::nullopt;
  uint64_t kib = 0;
  std::from_chars(text.data() + digit, text.data() + text.size(), kib);
  return kib * 1024;
}

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Code::kNotFound, "read {}: there is no such process", path);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Result<ProcessMemory> process_memory(const std::string& pid) {
  const std::string path = "/proc/" + pid + "/status";
  NPU_TRY(const std::string text, contents(path));
  const auto peak = field(text, "VmHWM");
  const auto shared = field(text, "RssShmem");
  if (!peak || !shared) {
    return fail(Code::kDataLoss, "read {}: no VmHWM and RssShmem in it; the process has ended",
                path);
  }
  return ProcessMemory{*peak, *shared};
}

Result<double> process_cpu_ms(const std::string& pid) {
  constexpr int kBefore = 11;  // fields between the name and utime, proc(5)
  const std::string path = "/proc/" + pid + "/stat";
  NPU_TRY(const std::string text, contents(path));
  // The name is in brackets and may hold anything, brackets and spaces too.
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) fields >> skipped;
  double user = 0, system = 0;
  if (!(fields >> user >> system)) {
    return fail(Code::kDataLoss, "read {}: no utime and stime in it", path);
  }
  return 1e3 * (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace npu::client
