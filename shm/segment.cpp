#include "shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <boost/version.hpp>
#include <cerrno>
#include <cstring>

#include "shm/base/units.hpp"

#if BOOST_VERSION < 107800
#error "Boost >= 1.78 is required: older Interprocess does not allocate what it maps"
#endif

namespace npu::shm {
namespace {

namespace bip = boost::interprocess;

#ifndef MADV_POPULATE_WRITE
constexpr int kMadvPopulateWrite = 23;
#else
constexpr int kMadvPopulateWrite = MADV_POPULATE_WRITE;
#endif
#ifndef F_SEAL_FUTURE_WRITE
constexpr int kSealFutureWrite = 0x0010;
#else
constexpr int kSealFutureWrite = F_SEAL_FUTURE_WRITE;
#endif

/// What mapped_region asks of a memory-mappable object.
class FdMappable {
 public:
  FdMappable(int fd, bip::mode_t mode) noexcept : fd_(fd), mode_(mode) {}
  [[nodiscard]] bip::mapping_handle_t get_mapping_handle() const noexcept { return {fd_, false}; }
  [[nodiscard]] bip::mode_t get_mode() const noexcept { return mode_; }

 private:
  int fd_;
  bip::mode_t mode_;
};

const char* kind_name(SegmentKind kind) noexcept {
  switch (kind) {
    case SegmentKind::kArena:
      return "arena";
    case SegmentKind::kSubmit:
      return "submit page";
    case SegmentKind::kStatus:
      return "status page";
    case SegmentKind::kBoard:
      return "run board";
    case SegmentKind::kHints:
      return "hint page";
    case SegmentKind::kTrace:
      return "flight recorder";
    case SegmentKind::kJournal:
      return "run journal";
  }
  return "segment";
}

bool daemon_writes(SegmentKind kind) noexcept {
  return kind == SegmentKind::kStatus || kind == SegmentKind::kBoard || kind == SegmentKind::kTrace;
}

/// Linux 6.3 sets it by itself on files that are not executable (vm.memfd_noexec): F_SEAL_EXEC.
constexpr int kSealExec = 0x20;

int seals_of(SegmentKind kind) noexcept {
  return F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (daemon_writes(kind) ? kSealFutureWrite : 0);
}

Result<UniqueFd> allocate_memfd(const SegmentSpec& spec) {
  UniqueFd fd(::memfd_create(kind_name(spec.kind), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno(fmt::format("create the {}", kind_name(spec.kind)));
  // Allocate, then prove it: a shortage must be an error here, never SIGBUS at a later touch.
  const int err = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(spec.size_bytes));
  if (err != 0) {
    return fail_errno(
        err, fmt::format("allocate {} for the {} of device {}", format_bytes(spec.size_bytes),
                         kind_name(spec.kind), spec.device));
  }
  return fd;
}

Result<void> populate(const Mapping& mapping, const SegmentSpec& spec) {
  (void)::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);  // advisory
  while (::madvise(mapping.data(), mapping.size(), kMadvPopulateWrite) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return {};  // Linux before 5.14: posix_fallocate has to do
    return fail_errno(fmt::format("populate {} for the {} of device {}",
                                  format_bytes(spec.size_bytes), kind_name(spec.kind),
                                  spec.device));
  }
  return {};
}

void write_header(const Mapping& mapping, const SegmentSpec& spec) noexcept {
  auto* header = reinterpret_cast<SegmentHeader*>(mapping.data());
  header->layout_hash = layout_hash();
  header->size_bytes = spec.size_bytes;
  header->generation = spec.generation;
  header->kind = static_cast<uint32_t>(spec.kind);
  header->device = spec.device;
  header->rank = spec.rank;
  header->world = spec.world;
  // Last: a half-built segment never shows a valid magic. Pairs with the acquire in map_received.
  header->magic.store(kSegmentMagic, std::memory_order_release);
}

Result<void> check_header(const Mapping& mapping, const SegmentSpec& expected) {
  const auto* header = reinterpret_cast<const SegmentHeader*>(mapping.data());
  const char* name = kind_name(expected.kind);
  if (header->magic.load(std::memory_order_acquire) != kSegmentMagic) {
    return fail(Code::kDataLoss, "map the {}: it has no valid magic", name);
  }
  if (header->layout_hash != layout_hash()) {
    return fail(
        Code::kFailedPrecondition,
        "map the {}: the daemon's layout is {:016x}, this client's {:016x}; install the same "
        "version of npu and npud",
        name, header->layout_hash, layout_hash());
  }
  if (header->kind != static_cast<uint32_t>(expected.kind) ||
      header->generation != expected.generation || header->rank != expected.rank) {
    return fail(
        Code::kDataLoss,
        "map the {}: it is kind {} generation {} rank {}, expected kind {} generation {} rank {}",
        name, header->kind, header->generation, header->rank, static_cast<uint32_t>(expected.kind),
        expected.generation, expected.rank);
  }
  return {};
}

}  // namespace

Mapping::Mapping() noexcept = default;
Mapping::Mapping(Mapping&&) noexcept = default;
Mapping& Mapping::operator=(Mapping&&) noexcept = default;
Mapping::~Mapping() = default;
Mapping::Mapping(std::unique_ptr<bip::mapped_region> region) noexcept
    : region_(std::move(region)) {}

std::byte* Mapping::data() const noexcept {
  return region_ ? static_cast<std::byte*>(region_->get_address()) : nullptr;
}
uint64_t Mapping::size() const noexcept { return region_ ? region_->get_size() : 0; }
void Mapping::forget() noexcept { (void)region_.release(); }

Result<Mapping> Mapping::map(int fd, uint64_t size_bytes, Access access) {
  const bip::mode_t mode = access == Access::kReadOnly ? bip::read_only : bip::read_write;
  try {
    return Mapping(std::make_unique<bip::mapped_region>(FdMappable(fd, mode), mode, 0, size_bytes));
  } catch (const bip::interprocess_exception& e) {
    const int err = e.get_native_error();
    return fail_errno(err != 0 ? err : ENOMEM, fmt::format("map {}", format_bytes(size_bytes)));
  }
}

Result<Segment> create_segment(const SegmentSpec& spec) {
  Segment segment;
  NPU_TRY(segment.fd, allocate_memfd(spec));
  NPU_TRY(segment.mapping,
          Mapping::map(segment.fd.get(), spec.size_bytes, Mapping::Access::kReadWrite));
  NPU_TRY_VOID(populate(segment.mapping, spec));
  if (spec.kind != SegmentKind::kArena) write_header(segment.mapping, spec);
  // After our own writable mapping exists: FUTURE_WRITE forbids new ones and leaves this one alone.
  if (::fcntl(segment.fd.get(), F_ADD_SEALS, seals_of(spec.kind)) != 0) {
    return fail_errno(fmt::format("seal the {}", kind_name(spec.kind)));
  }
  return segment;
}

Result<Mapping> map_received(int fd, const SegmentSpec& expected) {
  const char* name = kind_name(expected.kind);
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno(fmt::format("stat the {}", name));
  if (static_cast<uint64_t>(st.st_size) != expected.size_bytes) {
    return fail(Code::kDataLoss, "map the {}: it has {} bytes, expected {}", name, st.st_size,
                expected.size_bytes);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      (daemon_writes(expected.kind) && (seals & kSealFutureWrite) == 0)) {
    return fail(Code::kDataLoss, "map the {}: seals are {:#x}, expected {:#x}", name, seals,
                seals_of(expected.kind));
  }
  const auto access =
      daemon_writes(expected.kind) ? Mapping::Access::kReadOnly : Mapping::Access::kReadWrite;
  NPU_TRY(Mapping mapping, Mapping::map(fd, expected.size_bytes, access));
  // A forked child must not write into a device of its parent.
  (void)::madvise(mapping.data(), mapping.size(), MADV_DONTFORK);
  if (expected.kind != SegmentKind::kArena) NPU_TRY_VOID(check_header(mapping, expected));
  return mapping;
}

Result<void> replace_received(Mapping& place, int fd, const SegmentSpec& expected) {
  NPU_TRY(const Mapping checked, map_received(fd, expected));
  NPU_CHECK(place.size() == checked.size());
  const int access = daemon_writes(expected.kind) ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mmap(place.data(), place.size(), access, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return fail_errno(fmt::format("map the {}", kind_name(expected.kind)));
  }
  (void)::madvise(place.data(), place.size(), MADV_DONTFORK);
  return {};
}

Result<ReturnedSegment> map_returned(int fd, const SegmentSpec& expected) {
  const char* name = kind_name(expected.kind);
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno(fmt::format("stat the {}", name));
  if (st.st_uid != ::geteuid()) {
    return fail(Code::kPermissionDenied, "take back the {}: uid {} made it, npud runs as uid {}",
                name, st.st_uid, ::geteuid());
  }
  if (static_cast<uint64_t>(st.st_size) != expected.size_bytes) {
    return fail(Code::kDataLoss, "take back the {}: it has {} bytes, expected {}", name, st.st_size,
                expected.size_bytes);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if ((seals & ~kSealExec) != seals_of(expected.kind)) {
    return fail(Code::kDataLoss, "take back the {}: seals are {:#x}, expected {:#x}", name, seals,
                seals_of(expected.kind));
  }
  const auto access =
      daemon_writes(expected.kind) ? Mapping::Access::kReadOnly : Mapping::Access::kReadWrite;
  ReturnedSegment returned;
  NPU_TRY(returned.mapping, Mapping::map(fd, expected.size_bytes, access));
  returned.inode = st.st_ino;
  if (expected.kind != SegmentKind::kArena) {
    NPU_TRY_VOID(check_header(returned.mapping, expected));
  }
  return returned;
}

}  // namespace npu::shm
