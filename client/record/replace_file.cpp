#include "client/record/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <span>

#include "shm/base/fd.hpp"

namespace npu::client {

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return fail_errno(fmt::format("create '{}'", temporary));
  auto written =
      write_all(fd.get(), std::as_bytes(std::span(text)), fmt::format("'{}'", temporary));
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = fail_errno(fmt::format("rename '{}' to '{}'", temporary, path));
  }
  if (!written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace npu::client
