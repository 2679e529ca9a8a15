// Fuzzes the daemon's reading of submissions: bytes of a submit page go through SubmissionReader
// and validate, and whatever is accepted must stay inside the arena, on element borders, and must
// not write a byte twice.
//
// Input: one byte of options, four of arena size, then entries: descriptor (128 bytes) and vectors
// (256 bytes), cut off or absent parts being zero. With options below 192 the entries are stamped,
// and counts, offsets and displacements drawn to where mistakes would be: see shape().
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "tests/fuzz/footprint.hpp"

namespace npu::fuzz {
namespace {

constexpr uint64_t kGeneration = 7;
constexpr size_t kHeadBytes = 5;
constexpr size_t kEntryBytes = sizeof(shm::Descriptor) + sizeof(shm::VectorArgs);
constexpr uint64_t kMaxEntries = 4;

[[noreturn]] void fail(const char* what, const shm::Submission& s,
                       const shm::SubmissionLimits& limits) {
  std::fprintf(stderr,
               "accepted, but %s: op %u dtype %u count %llu send %llu recv %llu root %u flags %u, "
               "rank %u of %u, arena %llu\n",
               what, s.op, s.dtype, static_cast<unsigned long long>(s.count),
               static_cast<unsigned long long>(s.send_offset),
               static_cast<unsigned long long>(s.recv_offset), s.root, s.flags, limits.rank,
               limits.size, static_cast<unsigned long long>(limits.arena_bytes));
  std::abort();
}

/// A rank's own part may lie where its operation puts it; the daemon reads it before it writes.
bool in_place(const Span& read, const Span& write, const shm::Submission& s,
              const shm::SubmissionLimits& limits) {
  const auto op = static_cast<shm::Op>(s.op);
  if (op == shm::Op::kAllToAll || op == shm::Op::kAllToAllV) return false;
  if (read.begin == write.begin && read.end == write.end) return true;
  const Wide part = s.count * Wide(dtype_size(static_cast<DType>(s.dtype)));
  if (shm::op_has_vectors(op)) return false;
  return read.end - read.begin < write.end - write.begin
             ? read.begin == write.begin + part * limits.rank
             : write.begin == read.begin + part * limits.rank;
}

bool meet(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }

/// What "accepted" promises to the engine.
void check_accepted(const shm::Submission& s, const shm::VectorArgs& v,
                    const shm::SubmissionLimits& limits) {
  if ((s.flags & shm::kFlagInline) != 0 && !shm::op_moves_nothing(static_cast<shm::Op>(s.op)) &&
      s.count * Wide(dtype_size(static_cast<DType>(s.dtype))) > shm::kInlineBytes) {
    fail("its payload is larger than an entry holds", s, limits);
  }
  const Footprint f = footprint(s, v, limits);
  const Wide element = dtype_size(static_cast<DType>(s.dtype));
  const auto check = [&](const Span& span) {
    if (span.begin < 0 || span.end > Wide(limits.arena_bytes)) fail("beyond the arena", s, limits);
    if (span.begin % element != 0) fail("between two elements", s, limits);
  };
  for (const Span& span : f.reads) check(span);
  for (size_t i = 0; i < f.writes.size(); ++i) {
    check(f.writes[i]);
    for (size_t j = 0; j < i; ++j) {
      if (meet(f.writes[i], f.writes[j])) fail("two parts are written to one place", s, limits);
    }
    for (const Span& read : f.reads) {
      if (meet(read, f.writes[i]) && !in_place(read, f.writes[i], s, limits)) {
        fail("what is read is overwritten", s, limits);
      }
    }
  }
}

struct Input {
  shm::SubmissionLimits limits;
  std::span<const uint8_t> entries;
  bool honest = true;
};

Input parse(std::span<const uint8_t> data) {
  Input input;
  const uint8_t options = data[0];
  input.limits.size = 1 + options % shm::kMaxDevices;
  input.limits.rank = (options / 8) % input.limits.size;
  input.honest = options < 192;
  uint32_t arena = 0;
  std::memcpy(&arena, data.data() + 1, sizeof(arena));
  // From nothing to more than a process can map; small ones make hits likely.
  input.limits.arena_bytes = (arena & 1) != 0 ? uint64_t{arena >> 1} << 17 : (arena >> 1) % 65536;
  input.limits.generation = kGeneration;
  input.entries = data.subspan(kHeadBytes);
  return input;
}

/// A number near one of the borders: nothing, the arena's end, what times an element wraps, wrap.
uint64_t shape(uint64_t x, uint64_t arena_bytes) {
  const uint64_t near = x & 63;
  switch (x >> 61) {
    case 0:
    case 1:
    case 2:
      return near;
    case 3:
      return arena_bytes - near;
    case 4:
      return arena_bytes / (1 + (x >> 8) % 64) - near % 4;
    case 5:
      return (uint64_t{1} << (48 + (x >> 8) % 16)) + near - 32;
    case 6:
      return uint64_t{0} - near;
    default:
      return x;
  }
}

void make_honest(uint64_t index, uint64_t arena_bytes, shm::SubmitPage& page) {
  shm::Descriptor& entry = page.entries[index];
  entry.stamp.store(index + 1, std::memory_order_relaxed);
  entry.generation = kGeneration;
  entry.op %= shm::kOpCount + 1;
  entry.dtype %= kDTypeCount + 1;
  entry.reduce_op %= kReduceOpCount + 1;
  entry.algorithm %= shm::kAlgorithmCount + 1;
  entry.stream %= shm::kMaxStreams + 1;
  entry.root %= shm::kMaxDevices + 1;
  entry.flags %= 2 * shm::kFlagMask + 2;
  for (uint64_t* x : {&entry.count, &entry.send_offset, &entry.recv_offset}) {
    *x = shape(*x, arena_bytes);
  }
  shm::VectorArgs& v = page.vectors[index];
  for (uint64_t* list : {v.send_counts, v.send_displs, v.recv_counts, v.recv_displs}) {
    for (uint32_t r = 0; r < shm::kMaxDevices; ++r) list[r] = shape(list[r], arena_bytes);
  }
}

/// Writes the input's entries to the page as a rank would, or as it should not.
void fill_page(const Input& input, shm::SubmitPage& page) {
  auto bytes = input.entries;
  for (uint64_t i = 0; i < kMaxEntries; ++i) {
    std::array<uint8_t, kEntryBytes> entry{};
    const size_t n = std::min(bytes.size(), entry.size());
    std::copy_n(bytes.begin(), n, entry.begin());
    bytes = bytes.subspan(n);
    std::memcpy(static_cast<void*>(&page.entries[i]), entry.data(), sizeof(shm::Descriptor));
    std::memcpy(static_cast<void*>(&page.vectors[i]), entry.data() + sizeof(shm::Descriptor),
                sizeof(shm::VectorArgs));
    if (input.honest && n > 0) make_honest(i, input.limits.arena_bytes, page);
  }
}

void run(std::span<const uint8_t> data, shm::SubmitPage& page) {
  if (data.size() < kHeadBytes) return;
  const Input input = parse(data);
  fill_page(input, page);
  shm::SubmissionReader reader(&page);
  shm::Submission s;
  shm::VectorArgs v;
  uint64_t taken = 0;
  while (reader.ready()) {
    std::memset(&v, 0xff, sizeof(v));  // counts only if the operation has vectors
    if (!reader.pop(s, v) || s.ticket != taken || ++taken > kMaxEntries) std::abort();
    if (shm::validate(s, v, input.limits) == shm::Fault::kNone) check_accepted(s, v, input.limits);
  }
}

/// The check is worth something: it agrees with a plain descriptor of each operation, and notices
/// when that one is moved to the arena's end.
void self_test() {
  const shm::SubmissionLimits limits{
      .generation = kGeneration, .arena_bytes = 4096, .size = 4, .rank = 1};
  for (uint8_t op = 1; op < shm::kOpCount; ++op) {
    shm::Submission s{};
    shm::VectorArgs v{};
    s.generation = kGeneration;
    s.op = op;
    s.dtype = static_cast<uint8_t>(DType::kFloat32);
    s.root = 1;
    s.count = 8;
    s.recv_offset = 1024;
    for (uint32_t r = 0; r < limits.size; ++r) {
      v.send_counts[r] = v.recv_counts[r] = 8;
      v.send_displs[r] = v.recv_displs[r] = r * 8;
    }
    if (shm::validate(s, v, limits) != shm::Fault::kNone) fail("(not) in the self test", s, limits);
    check_accepted(s, v, limits);
    if (shm::op_moves_nothing(static_cast<shm::Op>(op))) continue;
    s.send_offset = s.recv_offset = 4096 - 28;
    if (shm::validate(s, v, limits) != shm::Fault::kRange) fail("at the end", s, limits);
    bool beyond = false;
    const Footprint f = footprint(s, v, limits);
    for (const Span& span : f.reads) beyond |= span.end > 4096;
    for (const Span& span : f.writes) beyond |= span.end > 4096;
    if (!beyond) fail("the check did not see it", s, limits);
  }
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  npu::fuzz::self_test();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto page = std::make_unique<npu::shm::SubmitPage>();
  npu::fuzz::run({data, size}, *page);
  return 0;
}
