#include "client/data/picture_cache.hpp"

#include <utility>

namespace npu::data {
namespace {

uint64_t bytes_of(image::Size size, int channels) {
  return uint64_t{static_cast<uint32_t>(size.width)} * static_cast<uint32_t>(size.height) *
             static_cast<uint32_t>(channels) +
         image::kSlackBytes;
}

}  // namespace

bool CacheBudget::take(uint64_t bytes) noexcept {
  uint64_t left = left_.load(std::memory_order_relaxed);
  do {
    if (bytes > left) return false;
  } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  return true;
}

PictureCache::PictureCache(size_t pictures, std::shared_ptr<CacheBudget> budget)
    : budget_(std::move(budget)), pictures_(pictures), states_(pictures) {}

const image::Image* PictureCache::find(size_t i) const noexcept {
  return states_[i].load(std::memory_order_acquire) == kThere ? &pictures_[i] : nullptr;
}

bool PictureCache::has_room(image::Size size) const noexcept {
  return budget_->allows(bytes_of(size, 3));
}

void PictureCache::keep(size_t i, const image::Image& whole) {
  uint8_t absent = kAbsent;
  if (!states_[i].compare_exchange_strong(absent, kWriting, std::memory_order_relaxed)) return;
  const uint64_t bytes = bytes_of(whole.region.size(), whole.channels);
  if (!budget_->take(bytes)) {
    states_[i].store(kAbsent, std::memory_order_relaxed);
    return;
  }
  image::Image& kept = pictures_[i];
  kept.region = whole.region;
  kept.channels = whole.channels;
  kept.pixels.assign(whole.pixels.begin(), whole.pixels.begin() + static_cast<ptrdiff_t>(bytes));
  states_[i].store(kThere, std::memory_order_release);  // pairs with acquire in find()
}

}  // namespace npu::data
