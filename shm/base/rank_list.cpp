#include "shm/base/rank_list.hpp"

#include <fmt/core.h>

namespace npu {

std::string rank_list(uint32_t mask) {
  std::string text;
  for (uint32_t r = 0; r < 32; ++r) {
    if ((mask & (1u << r)) == 0) continue;
    uint32_t last = r;
    while (last + 1 < 32 && (mask & (1u << (last + 1))) != 0) ++last;
    if (!text.empty()) text += ',';
    text += last == r ? fmt::format("{}", r) : fmt::format("{}-{}", r, last);
    r = last;
  }
  return text;
}

}  // namespace npu
