// Hand-over between engine threads under the model checker: tasks and ring tokens travel through
// Boost.Lockfree's SPSC queues, threads without work park. Real are daemon/collectives/ring.cpp,
// helper.cpp, active.cpp and parker.hpp; the coordinator's loop is that of EngineRun::step and
// Engine::Impl::loop. Kernels work on tracked cells: whoever touches a slot or a buffer without
// owning it is a data race.
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "tests/model/expect.hpp"
#include "tests/model/relacy_futex.hpp"

// Last: from here on std::atomic is the checker's.
#include "daemon/collectives/active.cpp"
#include "daemon/collectives/helper.cpp"
#include "daemon/collectives/ring.cpp"

namespace npu::daemon {
namespace {

using model::Bug;
using model::expect_found;
using model::expect_holds;
using model::Mutant;

constexpr uint32_t kSlices = 2;  // of one byte

/// What lies behind an address that a kernel gets: one number.
class Cells {
 public:
  model::Tracked<uint64_t>& at(const std::byte* p) noexcept {
    for (auto& cell : cells_) {
      if (cell.place == nullptr) cell.place = p;
      if (cell.place == p) return cell.value;
    }
    RL_ASSERT(!"more places than cells");
    return cells_[0].value;
  }

 private:
  struct Cell {
    const std::byte* place = nullptr;
    model::Tracked<uint64_t> value;
  };
  std::array<Cell, 24> cells_;
};
Cells* cells = nullptr;  // of the simulation in progress

bool begin(std::byte* acc, const std::byte* src, uint64_t, double) noexcept {
  cells->at(acc) = static_cast<uint64_t>(cells->at(src));
  return false;
}
bool step(std::byte* acc, const std::byte* src, uint64_t, double) noexcept {
  cells->at(acc) = cells->at(acc) * 10 + cells->at(src);
  return false;
}
void finish(std::byte* dst, const std::byte* acc, uint64_t, uint32_t, ByProducts&) noexcept {
  cells->at(dst) = static_cast<uint64_t>(cells->at(acc));
}
bool scan(const std::byte*, uint64_t) noexcept { return false; }
void fold(const FoldSlice& s, ByProducts&) noexcept {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < s.ranks; ++r) sum = sum * 10 + cells->at(s.src[r]);
  for (uint32_t j = 0; j < s.dst_count; ++j) cells->at(s.dst[j]) = sum;
}
constexpr ReduceKernel kKernel{fold, begin, step, finish, scan, 1};

}  // namespace

void copy_slice(std::byte* const* dst, uint32_t dst_count, const std::byte* src, uint64_t,
                bool) noexcept {
  for (uint32_t j = 0; j < dst_count; ++j)
    cells->at(dst[j]) = static_cast<uint64_t>(cells->at(src));
}

namespace {

/// Thread 0 is the coordinator, the others are helpers. Two operations one after the other, in the
/// same Active.
template <typename Derived, uint32_t kRanks, int kHelpers, bool kRing>
struct Pool : model::Suite<Derived, kHelpers + 1> {
  Cells own_cells;
  std::array<std::array<std::byte, kSlices>, kRanks> send, recv;  // places only
  Parker parker;
  Ring ring{kRanks};
  Active active;
  std::vector<std::unique_ptr<Helper>> helpers;

  Pool() {
    cells = &own_cells;
    for (int i = 0; i < kHelpers; ++i) helpers.push_back(std::make_unique<Helper>(parker));
  }

  void thread(unsigned index) {
    if (index > 0) {
      model::threads->run(index - 1);
      return;
    }
    for (uint64_t number = 1; number <= 2; ++number) {
      prepare(number);
      run();
      check(number);
    }
    helpers.clear();
  }

  void prepare(uint64_t number) {
    park_until([&] { return active.users.load(std::memory_order_acquire) == 0; });
    active.op = shm::Op::kAllReduce;
    active.ranks = kRanks;
    active.count = kSlices;
    active.element_bytes = active.slice_elements = 1;
    active.kernel = &kKernel;
    for (uint32_t r = 0; r < kRanks; ++r) {
      active.send[r] = send[r].data();
      active.recv[r] = recv[r].data();
      for (uint32_t s = 0; s < kSlices; ++s) cells->at(&send[r][s]) = number + s;
    }
    active.cut();
    active.next.store(0, std::memory_order_relaxed);
    active.done.store(0, std::memory_order_relaxed);
  }

  void run() {
    if (kRing) {
      share_ring(active, ring, helpers, parker);
    } else {
      share_slices(active, helpers);
    }
    while (!active.finished()) {
      const bool moved = kRing ? step_ring(active, ring, helpers, true) : run_one_slice(active);
      if (!moved) park_until([&] { return can_step(); });
    }
    if (kRing) {
      for (const auto& helper : helpers) helper->parker().notify();
    }
  }

  bool can_step() const noexcept {
    if (active.finished()) return true;
    if (!kRing) return active.next.load(std::memory_order_relaxed) < active.slices;
    if (ring.has_finished()) return true;
    for (uint32_t d = 0; d < active.ranks / active.ring_owners; ++d) {
      if (ring.has_work(d)) return true;
    }
    return false;
  }

  template <typename Ready>
  void park_until(Ready ready) noexcept {
    while (!ready()) {
      const uint32_t ticket = parker.prepare();
      if (ready()) {
        parker.cancel();
      } else {
        parker.sleep(ticket, shm::kWaitSlice);
      }
    }
  }

  void check(uint64_t number) {
    for (uint32_t s = 0; s < kSlices; ++s) {
      uint64_t sum = 0;
      for (uint32_t r = 0; r < kRanks; ++r) sum = sum * 10 + number + s;
      for (uint32_t r = 0; r < kRanks; ++r) RL_ASSERT(cells->at(&recv[r][s]) == sum);
    }
  }
};

struct RingOfTwo : Pool<RingOfTwo, 2, 1, true> {};
struct RingOfThree : Pool<RingOfThree, 3, 1, true> {};  // the helper serves two devices
struct RingOfThreeThreads : Pool<RingOfThreeThreads, 3, 2, true> {};
struct Slices : Pool<Slices, 2, 2, false> {};

TEST(HopModel, RingOfTwoLosesNoTokenAndNoWake) { expect_holds<RingOfTwo>(10'000); }
TEST(HopModel, RingOfThreeLosesNoTokenAndNoWake) { expect_holds<RingOfThree>(10'000); }
TEST(HopModel, RingOfThreeThreadsLosesNoTokenAndNoWake) {
  expect_holds<RingOfThreeThreads>(10'000);
}
TEST(HopModel, SharedSlicesAreDoneOnceAndSeen) { expect_holds<Slices>(20'000); }

class HopBugs : public testing::TestWithParam<Bug> {};

TEST_P(HopBugs, IsFound) { GetParam().expect(GetParam().mutant, GetParam().result); }

constexpr Bug kBugs[] = {
    {"ParkedRelaxed", Mutant::kParkedRelaxed, expect_found<RingOfTwo>},
    {"NotifyRelaxed", Mutant::kNotifyRelaxed, expect_found<RingOfTwo>},
    {"ParkerWordNotBumped", Mutant::kParkerWordNotBumped, expect_found<RingOfTwo>},
    {"NotifiedBeforePush", Mutant::kNotifiedBeforePush, expect_found<Slices>},
    {"ParkedWithoutCheck", Mutant::kParkedWithoutCheck, expect_found<Slices>},
    {"NextNotTold", Mutant::kNextNotTold, expect_found<RingOfTwo>},
    {"FinishNotTold", Mutant::kFinishNotTold, expect_found<RingOfThree>},
    {"QueueIndexRelaxed", Mutant::kQueueIndexRelaxed, expect_found<RingOfTwo>,
     rl::test_result_data_race},
    {"DoneRelaxed", Mutant::kDoneRelaxed, expect_found<Slices>, rl::test_result_data_race},
    {"UsersRelaxed", Mutant::kUsersRelaxed, expect_found<Slices>, rl::test_result_data_race},
};
INSTANTIATE_TEST_SUITE_P(Each, HopBugs, testing::ValuesIn(kBugs),
                         [](const auto& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace npu::daemon
