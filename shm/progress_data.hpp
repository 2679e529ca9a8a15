// What rank 0 says of the training that goes on, for `npu metrics`: numbers of the last step and of the last
// validation. The rank writes every byte; each number stands for itself, nothing is decided by it.
#pragma once

#include <cstdint>

#include "shm/layout_data.hpp"

namespace npu::shm {

inline constexpr size_t kArchTextBytes = 56;
inline constexpr size_t kPrecisionTextBytes = 56;

/// A double is kept as its bits. Counters begin at 0 with the process, also of a resumed run.
struct alignas(kLineBytes) TrainingNumbers {
  std::atomic<uint64_t> steps;  // reported; release, pairs with the acquire in read_progress. 0: nothing is known
  std::atomic<uint64_t> epoch;  // under way, from 0
  std::atomic<uint64_t> loss, top1, top5;  // of the last step over all ranks; hits as ratio
  std::atomic<uint64_t> learning_rate, loss_scale;
  std::atomic<uint64_t> skipped;      // steps
  std::atomic<uint64_t> samples;      // trained
  std::atomic<uint64_t> data_wait_s;  // seconds for which steps waited for data
  std::atomic<uint64_t> validations;  // release, as steps
  std::atomic<uint64_t> val_loss, val_top1, val_top5;
};
static_assert(sizeof(TrainingNumbers) == kLineBytes);

struct alignas(kLineBytes) TrainingText {
  std::atomic<uint32_t> written;  // 1: the text stays as it is; release, pairs with the acquire in read_progress
  char arch[kArchTextBytes];
  char precision[kPrecisionTextBytes];
};
static_assert(sizeof(TrainingText) == kLineBytes);

struct TrainingProgress {
  TrainingNumbers numbers;
  TrainingText text;
};
static_assert(std::is_standard_layout_v<TrainingProgress>);

}  // namespace npu::shm
