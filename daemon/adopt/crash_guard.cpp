#include "daemon/adopt/crash_guard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "shm/base/fd.hpp"

namespace npu::daemon {

CrashGuard::CrashGuard(const std::string& runtime_dir) : path_(runtime_dir + "/adopting") {
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char count = 0;
  if (fd.valid() && ::read(fd.get(), &count, 1) == 1 && count >= '1' && count <= '9') {
    deaths_ = count - '0';
  }
  if (!allowed()) (void)::unlink(path_.c_str());
}

void CrashGuard::begin() noexcept {
  if (counting_ || path_.empty()) return;
  counting_ = true;
  write(deaths_ + 1);
}

void CrashGuard::write(int count) const noexcept {
  if (count == 0) {
    (void)::unlink(path_.c_str());
    return;
  }
  const UniqueFd fd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const char digit = static_cast<char>('0' + count);
  if (fd.valid()) (void)!::write(fd.get(), &digit, 1);
}

void CrashGuard::withdraw() noexcept {
  if (!counting_) return;
  counting_ = false;
  write(deaths_);
}

void CrashGuard::end() noexcept {
  if (!counting_) return;
  counting_ = false;
  deaths_ = 0;
  write(0);
}

}  // namespace npu::daemon
