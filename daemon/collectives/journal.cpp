#include "daemon/collectives/journal.hpp"

#include <algorithm>
#include <cstring>

#include "daemon/collectives/ring.hpp"

namespace npu::daemon {

static_assert(shm::kScratchBytes == kSliceBytes);
static_assert(kHoldBytes <= sizeof(shm::HoldRecord::windows));

Result<shm::Segment> Journal::create(uint64_t generation, uint32_t world, uint64_t arena_bytes) {
  const uint64_t marks = shm::journal_marks(arena_bytes);
  NPU_TRY(shm::Segment segment, shm::create_segment({.kind = shm::SegmentKind::kJournal,
                                                     .size_bytes = shm::journal_bytes(marks),
                                                     .generation = generation,
                                                     .world = world}));
  reinterpret_cast<shm::RunJournal*>(segment.mapping.data())->run.marks = marks;
  return segment;
}

Result<Journal> Journal::adopt(shm::Mapping mapping, uint32_t world) {
  Journal journal(std::move(mapping));
  const uint64_t size = journal.mapping_.size();
  const uint64_t marks = size < sizeof(shm::RunJournal) ? 0 : journal.page().run.marks;
  if (marks > size || shm::journal_bytes(marks) != size) {
    return fail(Code::kDataLoss, "the run's journal is damaged: {} marks in {} bytes", marks, size);
  }
  if (const uint32_t header_world = journal.page().header.world; header_world != world) {
    return fail(Code::kDataLoss, "the run's journal is one of {} ranks, not of {}", header_world,
                world);
  }
  return journal;
}

bool Journal::complete() const noexcept {
  return page().run.split.load(std::memory_order_relaxed) == 0;
}

void Journal::give_up() noexcept { page().run.split.store(1, std::memory_order_release); }

void Journal::announce(const Told& told, const shm::CompletionFields& fields) noexcept {
  shm::Verdict& v = page().verdict;
  v.rank_mask = told.rank_mask;
  std::copy(told.tickets.begin(), told.tickets.end(), v.tickets);
  v.second_ticket = told.second;
  v.sequence = fields.sequence;
  v.sum_squares = fields.sum_squares;
  v.culprit = fields.culprit;
  v.code = fields.code;
  v.found_inf = fields.found_inf ? 1 : 0;
  v.result_inf = fields.result_inf ? 1 : 0;
  v.algorithm = static_cast<uint8_t>(fields.algorithm);
  v.has_payload = fields.inline_payload != nullptr ? 1 : 0;
  if (fields.inline_payload != nullptr) {
    std::memcpy(v.inline_payload, fields.inline_payload, shm::kInlineBytes);
  }
  v.text_bytes = 0;
  if (fields.code != 0) {
    v.text_bytes = static_cast<uint32_t>(fields.error_text.copy(v.text, sizeof(v.text)));
  }
  v.state.store(1, std::memory_order_release);
}

void Journal::announced() noexcept {
  page().verdict.state.store(0, std::memory_order_release);
  // The next verdict's fields must not move before it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Journal::member_left(uint32_t rank) noexcept {
  page().run.left_mask.fetch_or(1u << rank, std::memory_order_release);
}

uint32_t Journal::left_mask() const noexcept {
  return page().run.left_mask.load(std::memory_order_acquire);
}

bool Journal::begin(const Active& active, const Told& told) noexcept {
  shm::RunJournal& j = page();
  if (active.slices > room()) return false;
  end();  // whatever an earlier daemon left of another one
  std::memset(after_page(), shm::kSliceOpen, active.slices);
  j.reduction.flags.store(0, std::memory_order_relaxed);
  j.reduction.slices = active.slices;
  j.reduction.slice_elements = active.slice_elements;
  std::copy(told.tickets.begin(), told.tickets.end(), j.reduction.tickets);
  j.reduction.state.store(1, std::memory_order_release);
  return true;
}

SliceJournal Journal::slices() noexcept {
  return {.marks = reinterpret_cast<std::atomic<uint8_t>*>(after_page()),
          .scratch = mapping_.data() + mapping_.size() - shm::kScratchSlots * kSliceBytes,
          .holds = page().holds,
          .flags = &page().reduction.flags};
}

void Journal::end() noexcept {
  page().reduction.state.store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

bool Journal::half_reduction(HalfReduction& into) const noexcept {
  const shm::RunJournal& j = page();
  if (j.reduction.state.load(std::memory_order_acquire) != 1) return false;
  into.flags = j.reduction.flags.load(std::memory_order_relaxed) & 3u;
  into.slices = j.reduction.slices;
  into.slice_elements = j.reduction.slice_elements;
  std::copy(std::begin(j.reduction.tickets), std::end(j.reduction.tickets), into.tickets.begin());
  return true;
}

void Journal::repeat_verdict(std::span<shm::StatusPage* const> pages) noexcept {
  if (page().verdict.state.load(std::memory_order_acquire) != 1) return;
  const shm::Verdict& v = page().verdict;
  std::array<char, shm::kErrorTextBytes> text{};
  // Through volatile: the compiler may not read it again behind the limit.
  const uint32_t text_bytes = *static_cast<const volatile uint32_t*>(&v.text_bytes);
  const size_t bytes = std::min<size_t>(text_bytes, text.size());
  std::memcpy(text.data(), v.text, bytes);
  const uint32_t mask = v.rank_mask;
  const shm::CompletionFields fields{
      .code = v.code,
      .found_inf = v.found_inf != 0,
      .result_inf = v.result_inf != 0,
      .algorithm = static_cast<shm::Algorithm>(v.algorithm),
      .culprit = v.culprit,
      .sequence = v.sequence,
      .sum_squares = v.sum_squares,
      .inline_payload = v.has_payload != 0 ? v.inline_payload : nullptr,
      .error_text = {text.data(), bytes}};
  for (uint32_t r = 0; r < pages.size(); ++r) {
    shm::StatusPage* const status = pages[r];
    if ((mask & (1u << r)) == 0 || status == nullptr) continue;
    for (const uint64_t ticket : {uint64_t{v.tickets[r]}, uint64_t{v.second_ticket}}) {
      const auto& slot = status->completions[ticket % shm::kQueueDepth];
      if (ticket == shm::kNoTicket || slot.stamp.load(std::memory_order_relaxed) > ticket) continue;
      shm::CompletionWriter(status).publish(ticket, fields);
    }
  }
}

bool overwrites_inputs(const Active& a) noexcept {
  if (a.ranks == 1 && a.scale == 1.0) return false;  // what is written is what was read
  switch (a.op) {
    case shm::Op::kAllReduce:
      for (uint32_t m = 0; m < a.ranks; ++m) {
        if (a.send[m] == a.recv[m]) return true;
      }
      return false;
    case shm::Op::kReduce:
      return a.send[a.root] == a.recv[a.root];
    case shm::Op::kReduceScatter:
    case shm::Op::kReduceScatterV:
      return true;  // in place is not told from out of place; being careful costs little
    default:
      return false;  // moves data that it does not overwrite, so it can be done again
  }
}

namespace {

/// Slices that threads and tokens can have been at. A forged journal that says more would hold the
/// engine, and with it other runs, up.
constexpr uint64_t kMostBegun = shm::kScratchSlots + Ring::kSlots;

/// A slice in the middle of which a thread died: the group that it was storing is stored again,
/// what is behind it is folded. False if the record says what cannot be.
bool redo_held(Active& a, const Slice& s, uint32_t thread) noexcept {
  shm::HoldRecord& record = a.journal.holds[thread];
  const uint64_t word = __atomic_load_n(&record.progress, __ATOMIC_ACQUIRE);
  uint64_t next = 0;
  if (word != 0) {
    const HeldGroup held = held_group(word);
    const uint64_t bytes = held.count * a.element_bytes;
    if ((word & 1) == 0 || held.element > s.count || held.count > s.count - held.element ||
        bytes > kHoldGroup || held.offset > kHoldBytes - bytes) {
      return false;
    }
    ResultPlaces places;
    const uint32_t n = result_places(a, s, places);
    for (uint32_t i = 0; i < n; ++i) {
      std::memcpy(places[i] + held.element * a.element_bytes, record.windows + held.offset, bytes);
    }
    next = held.element + held.count;
    // Nothing is held from here on: the windows are free for what is left.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    __atomic_store_n(&record.progress, hold_word(next, 0, 0), __ATOMIC_RELEASE);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  if (next < s.count) fold_part(a, s, next, thread);
  return true;
}

}  // namespace

bool redo_slices(Active& a) noexcept {
  uint64_t begun = 0;
  for (uint64_t i = 0; i < a.slices; ++i) {
    // The member that could write here would hurt its own run; the copy is what is judged.
    const uint8_t mark = a.journal.marks[i].load(std::memory_order_acquire);
    if (mark == shm::kSliceOpen || mark == shm::kSliceDone) continue;
    if (++begun > kMostBegun) return false;
    const Slice s = slice_at(a, i);
    if (mark > shm::kSliceHeld && mark <= shm::kSliceHeld + shm::kScratchSlots) {
      if (!redo_held(a, s, mark - shm::kSliceHeld - 1u)) return false;
      a.journal.marks[i].store(shm::kSliceDone, std::memory_order_release);
      continue;
    }
    ResultPlaces places;
    const uint32_t n = result_places(a, s, places);
    const std::byte* from = nullptr;
    if (mark == shm::kSliceAtLast && a.op == shm::Op::kAllReduce) {
      from = places[n - 1];
    } else if (mark <= shm::kScratchSlots) {
      from = a.journal.scratch + (mark - 1) * kSliceBytes;
    } else {
      return false;
    }
    copy_slice(places.data(), mark == shm::kSliceAtLast ? n - 1 : n, from,
               s.count * a.element_bytes, false);
    a.journal.marks[i].store(shm::kSliceDone, std::memory_order_release);
  }
  return true;
}

}  // namespace npu::daemon
