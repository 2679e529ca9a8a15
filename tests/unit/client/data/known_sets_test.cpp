#include "client/data/known_sets.hpp"

#include <gmock/gmock.h>

namespace npu::data {
namespace {

using testing::HasSubstr;

SetDigest mnist() {
  return {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
          "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"};
}

TEST(KnownSets, MnistInAFolderCalledFashionIsSaidAloud) {
  EXPECT_EQ(describe_set(mnist(), "/data/mnist"), "MNIST (digest ok)");
  EXPECT_THAT(describe_set(mnist(), "/data/FashionMNIST"), HasSubstr("not Fashion-MNIST"));
}

TEST(KnownSets, OneDifferentFileIsNamed) {
  SetDigest digest = mnist();
  digest[1] = "0";
  EXPECT_EQ(find_known_set(digest), nullptr);
  EXPECT_EQ(describe_set(digest, "/d"), "unknown set (like MNIST, but different train labels)");
}

TEST(KnownSets, UnknownAndEmptyDigestsAreAccepted) {
  EXPECT_EQ(describe_set({"1", "2", "3", "4"}, "/d"), "unknown set");
  EXPECT_EQ(describe_set({"", "", "", ""}, "/d"), "unknown set");
}

}  // namespace
}  // namespace npu::data
