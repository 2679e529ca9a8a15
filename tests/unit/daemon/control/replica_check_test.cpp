// Whose replica is the odd one, and which tensor; whatever the ranks say of themselves.
#include "daemon/control/replica_check.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace npu::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReplicaCheckTest : public testing::Test {
 protected:
  ReplicaCheckTest() {
    gathering_.step = 12;
    for (uint32_t r = 0; r < kWorld; ++r) {
      memory_[r].resize(4 * sizeof(shm::ReplicaRow));
      set_row(r, 0, shm::ReplicaPart::kParameter, "conv1.weight");
      set_row(r, 1, shm::ReplicaPart::kMomentum, "conv1.weight");
      set_row(r, 2, shm::ReplicaPart::kBuffer, "bn1.running_var");
      set_row(r, 3, shm::ReplicaPart::kAverage, "fc.bias");
      gathering_.by_rank[r].replica_digest = 77;
      gathering_.by_rank[r].digests_count = 4;
    }
  }

  void set_row(uint32_t rank, size_t row, shm::ReplicaPart part, const char* name) {
    shm::ReplicaRow& r = at(rank, row);
    r = {};
    r.digest = 1000 + row;
    r.kind = static_cast<uint32_t>(part);
    shm::put_text(r.name, name);
  }
  shm::ReplicaRow& at(uint32_t rank, size_t row) {
    return reinterpret_cast<shm::ReplicaRow*>(memory_[rank].data())[row];
  }
  /// One part of a rank differs from the others'.
  void damage(uint32_t rank, size_t row) {
    at(rank, row).digest ^= 1;
    gathering_.by_rank[rank].replica_digest ^= 1;
  }
  std::optional<Divergence> compare(uint32_t world = kWorld) {
    std::array<std::span<const std::byte>, shm::kMaxDevices> arenas;
    for (uint32_t r = 0; r < kWorld; ++r) arenas[r] = memory_[r];
    return compare_replicas(gathering_, world, arenas);
  }

  static constexpr uint32_t kWorld = 4;
  CommitGathering gathering_;
  std::array<std::vector<std::byte>, kWorld> memory_;
};

TEST_F(ReplicaCheckTest, EqualDigestsAreNoDivergence) {
  EXPECT_FALSE(compare());
  EXPECT_FALSE(compare(1));
}

TEST_F(ReplicaCheckTest, TheOddRankIsNamedAlsoWhenItIsTheFirst) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    damage(rank, 1);
    const auto sut = compare();
    ASSERT_TRUE(sut);
    EXPECT_EQ(sut->rank, rank);
    EXPECT_THAT(sut->message,
                AllOf(HasSubstr("replica check at step 12: rank " + std::to_string(rank) +
                                "'s momentum of 'conv1.weight' differs"),
                      HasSubstr("3 other ranks that agree")));
    damage(rank, 1);  // and back
  }
}

TEST_F(ReplicaCheckTest, TwoRanksCannotTellWhoIsRight) {
  damage(0, 0);
  const auto sut = compare(2);
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->rank, 1u);
  EXPECT_THAT(sut->message, AllOf(HasSubstr("rank 1's parameter 'conv1.weight' differs from rank "
                                            "0's, and no majority tells which is right"),
                                  Not(HasSubstr("that of"))));
}

TEST_F(ReplicaCheckTest, SeveralPartsAreCounted) {
  damage(2, 2);
  at(2, 3).digest = 5;
  EXPECT_THAT(compare()->message, HasSubstr("buffer 'bn1.running_var' and 1 other part differs"));
}

TEST_F(ReplicaCheckTest, RowsThatTellNothingLeaveTheDigests) {
  damage(2, 2);
  const auto count = gathering_.by_rank[2].digests_count;
  gathering_.by_rank[2].digests_count = 0;
  EXPECT_THAT(compare()->message, HasSubstr("replica (digest 000000000000004c instead of"));
  gathering_.by_rank[2].digests_count = count + 1;  // beyond the arena
  EXPECT_THAT(compare()->message, HasSubstr("replica (digest"));
  gathering_.by_rank[2].digests_count = UINT32_MAX;
  EXPECT_THAT(compare()->message, HasSubstr("replica (digest"));
  gathering_.by_rank[2].digests_count = count;
  gathering_.by_rank[2].digests_offset = UINT64_MAX - 8;
  EXPECT_THAT(compare()->message, HasSubstr("replica (digest"));
}

TEST_F(ReplicaCheckTest, HostileRowsAreShownEscaped) {
  damage(1, 0);
  at(1, 0).kind = 99;
  std::fill(std::begin(at(1, 0).name), std::end(at(1, 0).name), '\n');
  EXPECT_THAT(compare()->message, AllOf(HasSubstr("rank 1's part '"), Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace npu::daemon
