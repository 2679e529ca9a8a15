// What model tests say: an interleaving may fail, or must. A failure prints the steps of the
// threads that led to it.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "tests/model/relacy_suite.hpp"

namespace npu::model {

template <typename SuiteType>
void expect_holds(uint64_t interleavings) {
  const Verdict verdict = explore<SuiteType>({.interleavings = interleavings});
  EXPECT_EQ(verdict.result, rl::test_result_success) << verdict.text;
}

/// The checker has teeth: with the bug switched on, some interleaving fails, and in this way.
template <typename SuiteType>
void expect_found(Mutant mutant, rl::test_result_e result) {
  const Verdict verdict = explore<SuiteType>({.interleavings = 200'000, .mutant = mutant});
  EXPECT_EQ(verdict.result, result)
      << rl::test_result_str(verdict.result) << " after " << verdict.explored << " interleavings\n"
      << verdict.text;
}

/// A bug as a parameter of a test.
struct Bug {
  const char* name;
  Mutant mutant;
  void (*expect)(Mutant, rl::test_result_e);
  rl::test_result_e result = rl::test_result_deadlock;

  friend void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }
};

}  // namespace npu::model
