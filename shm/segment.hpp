// Creates, seals, hands over and maps shared segments: anonymous memfds, so nothing has a name that
// could leak, collide or be squatted. Nothing outside this file maps shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/layout_data.hpp"

namespace boost::interprocess {
class mapped_region;
}

namespace npu::shm {

/// A mapping of a whole segment; unmapped on destruction. Movable.
class Mapping {
 public:
  Mapping() noexcept;
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  enum class Access : uint8_t { kReadOnly, kReadWrite };

  /// Maps `size_bytes` of `fd`. Errors: resource_exhausted, permission_denied (a sealed page asked
  /// for writing).
  [[nodiscard]] static Result<Mapping> map(int fd, uint64_t size_bytes, Access access);

  [[nodiscard]] std::byte* data() const noexcept;
  [[nodiscard]] uint64_t size() const noexcept;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size()}; }
  /// In a forked child, where nothing is mapped there: forgets it without unmapping what may have
  /// taken its place since.
  void forget() noexcept;

 private:
  explicit Mapping(std::unique_ptr<boost::interprocess::mapped_region> region) noexcept;
  std::unique_ptr<boost::interprocess::mapped_region> region_;
};

/// A segment as its creator holds it: descriptor to pass on, mapping to use.
struct Segment {
  UniqueFd fd;
  Mapping mapping;
};

struct SegmentSpec {
  SegmentKind kind = SegmentKind::kArena;
  uint64_t size_bytes = 0;
  uint64_t generation = 0;
  uint32_t device = 0, rank = 0, world = 0;
};

/// Allocates every page before returning (posix_fallocate, MADV_POPULATE_WRITE), writes the header
/// (not for arenas) and seals: no shrink, no grow, and for what only the daemon writes (status
/// page, board, flight recorder) no further writable mapping. Errors: resource_exhausted with
/// wanted bytes. Cost: touches every page. Thread: any.
[[nodiscard]] Result<Segment> create_segment(const SegmentSpec& spec);

/// Maps a segment received from the daemon: size by fstat, seals by F_GET_SEALS, then the header is
/// checked. Errors: failed_precondition naming both sides; data_loss when the descriptor is not
/// what it should be.
[[nodiscard]] Result<Mapping> map_received(int fd, const SegmentSpec& expected);

/// The same, at the address of `place`, in one step: whoever reads there sees the old segment or
/// the new one. `place` keeps its size.
[[nodiscard]] Result<void> replace_received(Mapping& place, int fd, const SegmentSpec& expected);

/// A segment that a client hands back to a daemon.
struct ReturnedSegment {
  Mapping mapping;  // writable where clients may write, too
  uint64_t inode = 0;
};

/// Maps it if it is what an earlier daemon of this user made for that rank: owner, size, exactly
/// its seals, header. The owner of a memfd cannot be forged by another user. Errors:
/// permission_denied (another user made it); data_loss naming what differs.
[[nodiscard]] Result<ReturnedSegment> map_returned(int fd, const SegmentSpec& expected);

}  // namespace npu::shm
