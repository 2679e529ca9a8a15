// The bounds of the JSON event reader, with a handler that accepts everything it is offered.
#include "shm/format/strict_json.hpp"

#include <gtest/gtest.h>

namespace npu {
namespace {

class CountingHandler final : public JsonHandler {
 public:
  bool on_begin_object() override { return ++events_ > 0; }
  bool on_end_object() override { return ++events_ > 0; }
  bool on_begin_array() override { return ++events_ > 0; }
  bool on_end_array() override { return ++events_ > 0; }
  bool on_key(std::string&&) override { return ++events_ > 0; }
  bool on_string(std::string&&) override { return ++events_ > 0; }
  bool on_unsigned(uint64_t) override { return ++events_ > 0; }

 private:
  int events_ = 0;
};

std::string problem_of(std::string_view text) {
  CountingHandler handler;
  const auto result = read_json(text, 3, handler, "text");
  return result ? "" : result.error().message;
}

TEST(StrictJson, AcceptsNestedObjectsWithinTheLimit) {
  EXPECT_EQ(problem_of(R"({"a": [1, "x", {"b": 18446744073709551615}]}  )"), "");
}

TEST(StrictJson, RefusesWhatIsNotOneObject) {
  for (const std::string_view text :
       {"", " {}", "[]", "{", "{}{}", "{} x", "{\"a\":1,}", "{a:1}", "{\"a\":1}//"}) {
    EXPECT_NE(problem_of(text), "") << text;
  }
}

TEST(StrictJson, RefusesDepthNullBooleansAndForeignNumbers) {
  EXPECT_EQ(problem_of(R"({"a":[[[1]]]})"), "text: nested deeper than 3 levels");
  EXPECT_EQ(problem_of(R"({"a":null})"), "text: null is not expected anywhere");
  EXPECT_EQ(problem_of(R"({"a":true})"), "text: a boolean is not expected anywhere");
  EXPECT_EQ(problem_of(R"({"a":-1})"), "text: -1 is negative");
  EXPECT_EQ(problem_of(R"({"a":1.0})"), "text: 1.0 is not an unsigned 64-bit integer");
  EXPECT_NE(problem_of(R"({"a":18446744073709551616})"), "");
}

TEST(StrictJson, RefusesBytesBehindANul) {
  EXPECT_NE(problem_of(std::string_view("{}\0hidden", 9)).find("NUL"), std::string::npos);
}

TEST(StrictJson, RefusesInvalidUtf8) {
  EXPECT_NE(problem_of("{\"\xff\":1}").find("UTF-8"), std::string::npos);
  EXPECT_NE(problem_of("{\"\xed\xa0\x80\":1}").find("UTF-8"), std::string::npos);  // a surrogate
  EXPECT_FALSE(json_quote("\xc3").has_value());
}

TEST(StrictJson, SurvivesDeepNestingWithoutRecursion) {
  EXPECT_NE(problem_of("{\"a\":" + std::string(1'000'000, '[')), "");
}

}  // namespace
}  // namespace npu
