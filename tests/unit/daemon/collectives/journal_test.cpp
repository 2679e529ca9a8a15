// The journal as the next daemon reads it, after an end at any store of this one.
#include "daemon/collectives/journal.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <thread>
#include <type_traits>
#include <vector>

namespace npu::daemon {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    auto made = Journal::create(7, 2, 1 << 20);
    EXPECT_TRUE(made);
    fd_ = std::move(made->fd);
    sut_ = Journal(std::move(made->mapping));
    for (shm::Segment& page : pages_) {
      page = std::move(*shm::create_segment(
          {.kind = shm::SegmentKind::kStatus, .size_bytes = sizeof(shm::StatusPage)}));
    }
  }
  shm::StatusPage& page(uint32_t r) {
    return *reinterpret_cast<shm::StatusPage*>(pages_[r].mapping.data());
  }
  void repeat() {
    const std::array<shm::StatusPage*, 2> pages{&page(0), &page(1)};
    sut_.repeat_verdict(pages);
  }

  UniqueFd fd_;
  Journal sut_;
  std::array<shm::Segment, 2> pages_;
};

TEST_F(JournalTest, VerdictIsRepeatedToThoseWhoMissIt) {
  Told told{.rank_mask = 3};
  told.tickets = {4, 260};
  sut_.announce(told, {.code = 8, .culprit = 1, .sequence = 11, .error_text = "why"});
  shm::CompletionWriter(&page(0)).publish(4, {.code = 8, .sequence = 99});
  repeat();
  EXPECT_EQ(page(0).completions[4].sequence, 99u) << "told already";
  EXPECT_EQ(page(1).completions[4].stamp.load(), 261u);
  EXPECT_EQ(page(1).completions[4].sequence, 11u);
  EXPECT_STREQ(page(1).error_texts[page(1).completions[4].error_text].text, "why");
}

TEST_F(JournalTest, VerdictThatAllHaveIsNotRepeated) {
  sut_.announce({.rank_mask = 1}, {});
  sut_.announced();
  repeat();
  EXPECT_EQ(page(0).completions[0].stamp.load(), 0u);
}

TEST_F(JournalTest, SecondTicketOfARankWithItselfCounts) {
  Told told{.rank_mask = 2};
  told.tickets[1] = 8;
  told.second = 9;
  sut_.announce(told, {});
  shm::CompletionWriter(&page(1)).publish(8, {});
  repeat();
  EXPECT_EQ(page(1).completions[9].stamp.load(), 10u);
  EXPECT_EQ(page(0).completions[9].stamp.load(), 0u);
}

/// Three slices of two ranks, in place.
class RedoTest : public JournalTest {
 protected:
  static constexpr uint64_t kElements = kSliceBytes / 4, kCount = 2 * kElements + 5;

  RedoTest() {
    active_.op = shm::Op::kAllReduce;
    active_.ranks = 2;
    active_.count = kCount;
    active_.slice_elements = kElements;
    active_.kernel = &reduce_kernel(DType::kFloat32, ReduceOp::kSum);
    for (uint32_t r = 0; r < 2; ++r) {
      data_[r].assign(kCount, static_cast<float>(r + 1));
      active_.recv[r] = reinterpret_cast<std::byte*>(data_[r].data());
      active_.send[r] = active_.recv[r];
    }
    active_.cut();
    EXPECT_TRUE(sut_.begin(active_, {.rank_mask = 3}));
    active_.journal = sut_.slices();
    active_.journal.redo = true;
    active_.journal.identity = &reduce_kernel(DType::kFloat32, ReduceOp::kSum);
  }
  void expect_sums() {
    while (run_one_slice(active_)) {
    }
    for (const auto& data : data_) {
      for (const float value : data) ASSERT_EQ(value, 3.0F);
    }
    for (uint64_t i = 0; i < active_.slices; ++i) {
      EXPECT_EQ(active_.journal.marks[i].load(), shm::kSliceDone);
    }
  }
  void set(uint32_t rank, uint64_t slice, float value) {
    const Slice s = slice_at(active_, slice);
    std::fill_n(data_[rank].begin() + static_cast<ptrdiff_t>(s.begin), s.count, value);
  }

  Active active_;
  std::array<std::vector<float>, 2> data_;
};

TEST_F(RedoTest, OpenFoldedAndDoneSlicesEndAlike) {
  set(0, 0, 3.0F), set(1, 0, 3.0F);
  active_.journal.marks[0].store(shm::kSliceDone);
  // Folded in slot 4, half copied.
  set(0, 1, 3.0F), set(1, 1, -77.0F);
  std::fill_n(reinterpret_cast<float*>(active_.journal.scratch + 4 * kSliceBytes), kElements, 3.0F);
  active_.journal.marks[1].store(5);
  ASSERT_TRUE(redo_slices(active_));
  expect_sums();
}

TEST_F(RedoTest, ResultAtTheLastRankOfARingIsTakenFromThere) {
  set(0, 2, -5.0F), set(1, 2, 3.0F);
  active_.journal.marks[2].store(shm::kSliceAtLast);
  ASSERT_TRUE(redo_slices(active_));
  expect_sums();
}

TEST_F(RedoTest, SumOfSquaresIsThatOfAnUndisturbedRun) {
  std::vector<double> sums(kCount / kBlockElements + 1);
  active_.block_sums = sums.data();
  set(0, 0, 3.0F), set(1, 0, 3.0F);
  active_.journal.marks[0].store(shm::kSliceDone);
  ASSERT_TRUE(redo_slices(active_));
  expect_sums();
  double all = 0;
  for (const double sum : sums) all += sum;
  EXPECT_EQ(all, 9.0 * static_cast<double>(kCount));
}

// A thread died while it stored elements 64 to 127 of the slice: some ranks have them, some have
// not.
TEST_F(RedoTest, HalfStoredGroupIsStoredAgainAndTheRestIsFolded) {
  std::fill_n(data_[0].begin(), 100, 3.0F);
  std::fill_n(data_[1].begin(), 64, 3.0F);
  std::fill_n(data_[1].begin() + 64, 64, -9.0F);
  shm::HoldRecord& record = active_.journal.holds[2];
  record.progress = hold_word(64, 64, kHoldGroup);
  std::fill_n(reinterpret_cast<float*>(record.windows + kHoldGroup), 64, 3.0F);
  active_.journal.marks[0].store(shm::kSliceHeld + 3);
  ASSERT_TRUE(redo_slices(active_));
  expect_sums();
}

TEST_F(RedoTest, HoldRecordThatCannotBeIsRefused) {
  active_.journal.marks[0].store(shm::kSliceHeld + 1);
  for (const uint64_t wrong : {hold_word(kElements, 1, 0), hold_word(~uint64_t{0} >> 24, 64, 0),
                               hold_word(0, 65, 0), hold_word(0, 64, kHoldBytes), uint64_t{2}}) {
    active_.journal.holds[0].progress = wrong;
    EXPECT_FALSE(redo_slices(active_)) << wrong;
  }
}

/// A process that folds in place is killed, wherever it is, again and again; another one ends what
/// it began.
template <typename T>
class KilledTest : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 5;
  static constexpr uint64_t kCount = (uint64_t{1} << 17) + 77;

  KilledTest() {
    auto made = Journal::create(7, kRanks, kCount * sizeof(T));
    journal_ = Journal(std::move(made->mapping));
    for (uint64_t e = 0; e < 9; ++e) {
      int sum = 0;
      for (uint32_t r = 0; r < kRanks; ++r) sum += value(r, e);
      sums_[e] = static_cast<T>(sum);
    }
    for (shm::Segment& rank : ranks_) {
      rank = std::move(*shm::create_segment({.size_bytes = kCount * sizeof(T)}));
    }
  }
  T* data(uint32_t r) { return reinterpret_cast<T*>(ranks_[r].mapping.data()); }
  static int value(uint32_t r, uint64_t e) { return static_cast<int>((e + r) % 9); }
  void prepare(Active& a) {
    a.op = shm::Op::kAllReduce;
    a.ranks = kRanks;
    a.dtype = std::is_same_v<T, float> ? DType::kFloat32 : DType::kUint8;
    a.element_bytes = sizeof(T);
    a.count = kCount;
    a.slice_elements = kSliceBytes / sizeof(T);
    a.kernel = &reduce_kernel(a.dtype, ReduceOp::kSum);
    for (uint32_t r = 0; r < kRanks; ++r) {
      a.recv[r] = ranks_[r].mapping.data();
      a.send[r] = a.recv[r];
    }
    a.cut();
  }
  static bool work(Active& a, uint32_t thread) {
    while (run_one_slice(a, thread)) {
    }
    return true;
  }

  Journal journal_;
  std::array<shm::Segment, kRanks> ranks_;
  std::array<T, 9> sums_{};
};
using Types = testing::Types<float, uint8_t>;
TYPED_TEST_SUITE(KilledTest, Types);

TYPED_TEST(KilledTest, AnywhereCostsNoElement) {
  uint64_t random = 12345;
  int half_done = 0;
  for (int round = 0; round < 100; ++round) {
    for (uint32_t r = 0; r < this->kRanks; ++r) {
      for (uint64_t e = 0; e < this->kCount; ++e) {
        this->data(r)[e] = static_cast<TypeParam>(this->value(r, e));
      }
    }
    Active active;
    this->prepare(active);
    ASSERT_TRUE(this->journal_.begin(active, {}));
    active.journal = this->journal_.slices();
    const pid_t child = ::fork();
    if (child == 0) {
      std::thread second([&] { this->work(active, 1); });
      this->work(active, 0);
      second.join();
      ::_exit(0);
    }
    random = random * 6364136223846793005u + 1442695040888963407u;
    const timespec moment{0, static_cast<long>((random >> 33) % 700'000)};
    ::nanosleep(&moment, nullptr);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    Active rest;
    this->prepare(rest);
    rest.journal = this->journal_.slices();
    rest.journal.redo = true;
    for (uint64_t i = 0; i < rest.slices; ++i) {
      half_done += rest.journal.marks[i].load() > shm::kSliceHeld &&
                           rest.journal.marks[i].load() < shm::kSliceAtLast
                       ? 1
                       : 0;
    }
    ASSERT_TRUE(redo_slices(rest));
    this->work(rest, 0);
    for (uint32_t r = 0; r < this->kRanks; ++r) {
      for (uint64_t e = 0; e < this->kCount; ++e) {
        ASSERT_EQ(this->data(r)[e], this->sums_[e % 9])
            << "round " << round << " rank " << r << " element " << e;
      }
    }
  }
  std::printf("killed in the middle of a slice: %d times\n", half_done);
}

TEST_F(RedoTest, MarkThatIsNoneIsRefused) {
  for (const uint8_t wrong : {uint8_t{9}, uint8_t{64}, uint8_t{100}, uint8_t{253}}) {
    active_.journal.marks[0].store(wrong);
    EXPECT_FALSE(redo_slices(active_));
  }
}

TEST_F(JournalTest, SizeThatDoesNotFitTheMarksIsRefused) {
  const auto map = [this](uint64_t bytes) {
    return std::move(*shm::Mapping::map(fd_.get(), bytes, shm::Mapping::Access::kReadWrite));
  };
  const uint64_t size = shm::journal_bytes(shm::journal_marks(1 << 20));
  EXPECT_TRUE(Journal::adopt(map(size), 2));
  EXPECT_FALSE(Journal::adopt(map(size), 3));
  EXPECT_FALSE(Journal::adopt(map(size - 4096), 2));
}

}  // namespace
}  // namespace npu::daemon
