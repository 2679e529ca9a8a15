// Ranks as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace npu {

/// "0-2,4" for the set bits of `mask`, lowest first; empty for none.
[[nodiscard]] std::string rank_list(uint32_t mask);

}  // namespace npu
