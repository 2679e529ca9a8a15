#include "daemon/adopt/returned_rank.hpp"

#include <sys/stat.h>

#include <cstring>

#include "shm/hints_data.hpp"
#include "shm/journal_data.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {
namespace {

/// A new page with the completions of the old one: the rank has not read all of them yet.
Result<shm::Segment> copy_status(int old_fd, shm::SegmentSpec spec) {
  spec.kind = shm::SegmentKind::kStatus;
  spec.size_bytes = sizeof(shm::StatusPage);
  NPU_TRY(const shm::ReturnedSegment old, shm::map_returned(old_fd, spec));
  NPU_TRY(shm::Segment made, shm::create_segment(spec));
  const size_t header = sizeof(shm::SegmentHeader);
  std::memcpy(made.mapping.data() + header, old.mapping.data() + header,
              sizeof(shm::StatusPage) - header);
  const auto& page = *reinterpret_cast<const shm::StatusPage*>(made.mapping.data());
  for (uint32_t i = 0; i < shm::kQueueDepth; ++i) {
    const uint64_t stamp = page.completions[i].stamp.load(std::memory_order_relaxed);
    if (stamp != 0 && (stamp - 1) % shm::kQueueDepth != i) {
      return fail(Code::kDataLoss, "take back the status page: completion {} has the stamp {}", i,
                  stamp);
    }
  }
  return made;
}

Result<shm::ReturnedSegment> journal_of(int fd, shm::SegmentSpec spec) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("stat the run journal");
  spec.kind = shm::SegmentKind::kJournal;
  spec.rank = 0;
  // Its size follows from the first arena of the run; what it says of itself is checked later.
  spec.size_bytes = static_cast<uint64_t>(st.st_size);
  if (spec.size_bytes < shm::journal_bytes(0) ||
      spec.size_bytes > shm::journal_bytes(uint64_t{1} << 32)) {
    return fail(Code::kDataLoss, "take back the run journal: it has {} bytes", spec.size_bytes);
  }
  return shm::map_returned(fd, spec);
}

}  // namespace

Result<ReturnedRank> take_back(std::span<const UniqueFd> fds, const shm::SegmentSpec& rank,
                               uint64_t arena_bytes) {
  NPU_CHECK(fds.size() == kReturnedFds);
  ReturnedRank back;
  shm::SegmentSpec spec = rank;
  spec.kind = shm::SegmentKind::kArena;
  spec.size_bytes = arena_bytes;
  NPU_TRY(back.arena, shm::map_returned(fds[0].get(), spec));
  spec.kind = shm::SegmentKind::kSubmit;
  spec.size_bytes = sizeof(shm::SubmitPage);
  NPU_TRY(back.submit, shm::map_returned(fds[1].get(), spec));
  NPU_TRY(back.status, copy_status(fds[2].get(), rank));
  spec.kind = shm::SegmentKind::kHints;
  spec.size_bytes = sizeof(shm::RunHints);
  spec.rank = 0;
  NPU_TRY(back.hints, shm::map_returned(fds[3].get(), spec));
  NPU_TRY(back.journal, journal_of(fds[4].get(), rank));
  return back;
}

}  // namespace npu::daemon
