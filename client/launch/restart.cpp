#include "client/launch/restart.hpp"

#include <algorithm>
#include <array>

#include "client/launch/rank_env.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

bool worth_restarting(int exit_code) noexcept {
  constexpr std::array kComesAgain = {Exit::kOk,       Exit::kUsage,       Exit::kBadData,
                                      Exit::kNoInput,  Exit::kCannotWrite, Exit::kPermission,
                                      Exit::kBadConfig};
  return exit_code != kExitStopped && std::ranges::none_of(kComesAgain, [exit_code](Exit e) {
           return static_cast<int>(e) == exit_code;
         });
}

void RestartBudget::note_checkpoint(int64_t step) noexcept {
  if (step <= best_step_) return;
  best_step_ = step;
  fruitless_ = 0;
}

std::optional<milliseconds> RestartBudget::take() noexcept {
  if (fruitless_ >= policy_.max_restarts) return std::nullopt;
  milliseconds delay = policy_.backoff;
  for (int i = 0; i < fruitless_ && delay < kLongestBackoff; ++i) delay *= 2;
  ++fruitless_;
  ++restarts_;
  return std::min(delay, kLongestBackoff);
}

}  // namespace npu::client
