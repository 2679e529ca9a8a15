#include "client/data/picture_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace npu::data {
namespace {

constexpr uint64_t kLine = 128;
constexpr uint64_t kMostBytes = uint64_t{1} << 44;  // of address space; pages come with use
// A slot holds the offset of its picture, or one of these.
constexpr uint64_t kAbsent = 0, kWriting = 1;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// The file: one line with the offset behind the last picture (0 before the first), the slots, then
// the pictures, each a Head and its rows.
struct Head {
  uint32_t width, height, channels, reserved;
};

constexpr uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

uint64_t pictures_begin(size_t slots) { return kLine + round_up(slots * sizeof(Word), kLine); }

uint64_t pixel_bytes(uint64_t width, uint64_t height, uint64_t channels) {
  return width * height * channels;
}

Word& word_at(const shm::Mapping& mapping, uint64_t offset) {
  return *reinterpret_cast<Word*>(mapping.data() + offset);
}

/// Every rank does the same to the same file; who comes later changes nothing. Errno.
int prepare(int fd, uint64_t begin, uint64_t total) {
  // Slots are written without a further check, so their pages must be there: a hole that cannot be
  // filled is SIGBUS.
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(begin)); error != 0) {
    return error;
  }
  if (::ftruncate(fd, static_cast<off_t>(total)) != 0) return errno;
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return errno;
  struct stat st {};
  if (::fstat(fd, &st) != 0) return errno;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const bool whole = seals >= 0 && (seals & kSeals) == kSeals;
  return whole && static_cast<uint64_t>(st.st_size) == total ? 0 : EINVAL;
}

/// A copy that this process may map for as long as it likes; -1 unless `fd` is a memfd.
UniqueFd shared_copy(int fd) {
  if (fd < 0 || ::fcntl(fd, F_GET_SEALS) < 0) return UniqueFd(-1);
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

PictureMemory::PictureMemory(UniqueFd fd, shm::Mapping mapping, size_t slots) noexcept
    : fd_(std::move(fd)),
      mapping_(std::move(mapping)),
      slots_(slots),
      first_(pictures_begin(slots)) {}

Result<UniqueFd> PictureMemory::create() {
  UniqueFd fd(::memfd_create("npu pictures", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("create memory for decoded pictures");
  return fd;
}

Result<std::shared_ptr<PictureMemory>> PictureMemory::open(int fd, size_t slots, uint64_t bytes) {
  const uint64_t begin = pictures_begin(slots);
  const uint64_t total = begin + std::min(bytes, kMostBytes);
  UniqueFd file = shared_copy(fd);
  if (!file.valid() || prepare(file.get(), begin, total) != 0) {
    NPU_TRY(file, create());
    if (const int error = prepare(file.get(), begin, total); error != 0) {
      return fail_errno(error, "make room for decoded pictures (data.cache_bytes)");
    }
  }
  NPU_TRY(shm::Mapping mapping,
          shm::Mapping::map(file.get(), total, shm::Mapping::Access::kReadWrite));
  return std::shared_ptr<PictureMemory>(
      new PictureMemory(std::move(file), std::move(mapping), slots));
}

std::optional<PictureMemory::Picture> PictureMemory::find(size_t slot) const noexcept {
  if (slot >= slots_) return std::nullopt;
  // Pairs with the release in keep().
  const uint64_t at =
      word_at(mapping_, kLine + slot * sizeof(Word)).load(std::memory_order_acquire);
  if (at < first_ || at % kLine != 0 || at > mapping_.size() - sizeof(Head)) return std::nullopt;
  Head head;
  std::memcpy(&head, mapping_.data() + at, sizeof(head));
  constexpr uint32_t kMostSide = 1U << 20;  // a product of three stays below 2^64
  if (head.width == 0 || head.width > kMostSide || head.height == 0 || head.height > kMostSide ||
      (head.channels != 1 && head.channels != 3) ||
      pixel_bytes(head.width, head.height, head.channels) > mapping_.size() - sizeof(Head) - at) {
    return std::nullopt;
  }
  return Picture{{static_cast<int>(head.width), static_cast<int>(head.height)},
                 static_cast<int>(head.channels),
                 reinterpret_cast<const uint8_t*>(mapping_.data() + at + sizeof(Head))};
}

bool PictureMemory::has_room(image::Size size) const noexcept {
  const uint64_t used = std::max(word_at(mapping_, 0).load(std::memory_order_relaxed), first_);
  const uint64_t wanted = sizeof(Head) + pixel_bytes(static_cast<uint32_t>(size.width),
                                                     static_cast<uint32_t>(size.height), 3);
  return used <= mapping_.size() && wanted <= mapping_.size() - used;
}

/// The offset of new room for `bytes`, its pages allocated.
std::optional<uint64_t> PictureMemory::claim(uint64_t bytes) noexcept {
  Word& used = word_at(mapping_, 0);
  uint64_t seen = used.load(std::memory_order_relaxed), at = 0;
  do {
    at = round_up(std::max(seen, first_), kLine);
    if (at > mapping_.size() || bytes > mapping_.size() - at) return std::nullopt;
  } while (!used.compare_exchange_weak(seen, at + bytes, std::memory_order_relaxed));
  // Beyond what the machine has left this is an error; a plain touch would be the end.
  if (::fallocate(fd_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(bytes)) != 0) {
    return std::nullopt;
  }
  return at;
}

void PictureMemory::keep(size_t slot, const image::Image& whole) noexcept {
  if (slot >= slots_) return;
  Word& word = word_at(mapping_, kLine + slot * sizeof(Word));
  uint64_t absent = kAbsent;
  if (!word.compare_exchange_strong(absent, kWriting, std::memory_order_relaxed)) return;
  const Head head{static_cast<uint32_t>(whole.region.width),
                  static_cast<uint32_t>(whole.region.height), static_cast<uint32_t>(whole.channels),
                  0};
  const uint64_t pixels = pixel_bytes(head.width, head.height, head.channels);
  const auto at = claim(sizeof(head) + pixels);
  if (!at) {
    word.store(kAbsent, std::memory_order_relaxed);
    return;
  }
  std::memcpy(mapping_.data() + *at, &head, sizeof(head));
  std::memcpy(mapping_.data() + *at + sizeof(head), whole.pixels.data(), pixels);
  word.store(*at, std::memory_order_release);
}

}  // namespace npu::data
