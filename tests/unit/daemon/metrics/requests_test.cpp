#include "daemon/metrics/requests.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

template <typename M>
std::span<const std::byte> bytes_of(const M& message) {
  return std::as_bytes(std::span(&message, 1));
}

class RequestMeterTest : public testing::Test {
 protected:
  void answer_error(uint64_t request, uint8_t code) {
    auto reply = shm::make_message<shm::ErrorReply>(request);
    reply.code = code;
    sut_.answered(1, bytes_of(reply), 5000);
  }
  void answer_end(uint64_t session, uint64_t request, uint64_t now) {
    sut_.answered(session, bytes_of(shm::make_plain(shm::MessageType::kEnd, request)), now);
  }

  RequestMeter sut_;
};

TEST_F(RequestMeterTest, CountsAnAnswerOnceItIsComplete) {
  sut_.begin(1, 7, Method::kInfo, 1000);
  sut_.answered(1, bytes_of(shm::make_message<shm::DeviceRow>(7)), 2000);
  EXPECT_EQ(sut_.count(Method::kInfo, 0), 0u) << "a row is not the end";
  answer_end(1, 7, 4000);
  EXPECT_EQ(sut_.count(Method::kInfo, 0), 1u);
  EXPECT_EQ(sut_.duration(Method::kInfo).sum_ns(), 3000u);
  answer_end(1, 7, 9000);
  EXPECT_EQ(sut_.count(Method::kInfo, 0), 1u) << "an answer that nobody waits for";
}

TEST_F(RequestMeterTest, CountsAnErrorByItsCode) {
  sut_.begin(1, 7, Method::kAttach, 1000);
  answer_error(7, static_cast<uint8_t>(Code::kUnavailable));
  EXPECT_EQ(sut_.count(Method::kAttach, static_cast<size_t>(Code::kUnavailable)), 1u);
  EXPECT_STREQ(outcome_name(static_cast<size_t>(Code::kUnavailable)), "unavailable");
}

TEST_F(RequestMeterTest, NewsThatNobodyAskedForEndNothing) {
  sut_.begin(1, 0, Method::kAttach, 1000);
  auto aborted = shm::make_message<shm::ErrorReply>(0);
  aborted.header.type = static_cast<uint32_t>(shm::MessageType::kAborted);
  sut_.answered(1, bytes_of(aborted), 2000);
  EXPECT_EQ(sut_.open(), 1u);
}

TEST_F(RequestMeterTest, SessionsDoNotMeetAndAGoneOneIsSaidSo) {
  sut_.begin(1, 7, Method::kList, 1000);
  sut_.begin(2, 7, Method::kOpen, 1000);
  sut_.forget(1);
  EXPECT_EQ(sut_.count(Method::kList, kOutcomeGone), 1u);
  EXPECT_EQ(sut_.open(), 1u);
  answer_end(2, 7, 2000);
  EXPECT_EQ(sut_.count(Method::kOpen, 0), 1u);
  EXPECT_EQ(sut_.open(), 0u);
}

TEST_F(RequestMeterTest, KeepsNoMoreThanItsLimit) {
  for (uint64_t i = 0; i < 2 * RequestMeter::kMaxOpen; ++i) sut_.begin(1, i, Method::kInfo, 1);
  EXPECT_EQ(sut_.open(), RequestMeter::kMaxOpen);
}

TEST_F(RequestMeterTest, EveryMethodHasAName) {
  for (size_t m = 0; m < kMethods; ++m) EXPECT_STRNE(method_name(static_cast<Method>(m)), "");
  EXPECT_EQ(method_of(static_cast<uint32_t>(shm::MessageType::kMetrics)), Method::kMetrics);
  EXPECT_EQ(method_of(12'345), Method::kUnknown);
  EXPECT_STREQ(outcome_name(0), "ok");
  EXPECT_STREQ(outcome_name(kOutcomeGone), "gone");
}

}  // namespace
}  // namespace npu::daemon
