#include "client/data/class_table.hpp"

#include <gmock/gmock.h>

namespace npu::data {
namespace {

using testing::HasSubstr;

TEST(ClassTable, HashDependsOnNamesAndOrder) {
  const std::string sut = class_table_hash({"cat", "dog"});
  EXPECT_EQ(sut.size(), 16U);
  EXPECT_EQ(sut, class_table_hash({"cat", "dog"}));
  EXPECT_NE(sut, class_table_hash({"dog", "cat"}));
  EXPECT_NE(sut, class_table_hash({"catd", "og"}));
  EXPECT_EQ(class_table_hash({}), "");
}

TEST(ClassTable, EqualTablesHaveNoDifference) {
  EXPECT_EQ(class_table_difference({"a", "b"}, {"a", "b"}), "");
}

TEST(ClassTable, DifferenceNamesBothSides) {
  EXPECT_EQ(class_table_difference({"cat", "dog", "owl"}, {"cat", "emu", "owl"}),
            "lacks 'dog'; has besides 'emu'");
  EXPECT_EQ(class_table_difference({"cat"}, {"cat", "dog"}), "has besides 'dog'");
}

TEST(ClassTable, DifferenceInOrderOnlySaysWhere) {
  EXPECT_THAT(class_table_difference({"cat", "dog"}, {"dog", "cat"}),
              HasSubstr("another order: 'dog' is label 0 there, 'cat' here"));
  EXPECT_EQ(class_table_difference({"a", "a"}, {"a"}), "repeats a name");
}

TEST(ClassTable, LongListsAreCut) {
  ClassTable many;
  for (int i = 0; i < 1000; ++i) many.push_back("class" + std::to_string(i));
  const std::string sut = class_table_difference(many, {"class0"});
  EXPECT_THAT(sut, HasSubstr("and 987 more"));
  EXPECT_LT(sut.size(), 300U);
}

}  // namespace
}  // namespace npu::data
