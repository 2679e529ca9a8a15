#include "client/record/tfevents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace npu::client {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// What TensorFlow writes for these.
const char* const kVersionHex =
    "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d";
const char* const kScalarHex =
    "1a00000000000000129bd82d0900004040fc54d94110052a0d0a0b0a046c6f7373150000003f8e52a9da";

TfEvent version() { return {1'700'000'000, 0, TfVersion{}}; }
TfEvent scalar() { return {1'700'000'001, 5, TfScalar{"loss", 0.5F}}; }

TEST(TfEvents, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TfEvents, RecordsAreTensorFlowsBytes) {
  EXPECT_EQ(tf_event_record(version()), from_hex(kVersionHex));
  EXPECT_EQ(tf_event_record(scalar()), from_hex(kScalarHex));
}

TEST(TfEvents, WhatIsWrittenIsReadBack) {
  const std::vector<TfEvent> events = {version(),
                                       scalar(),
                                       {1.5, 1'000'000'000'000, TfSessionStart{}},
                                       {2, 0, TfScalar{"", -1e-30F}}};
  std::string bytes;
  for (const TfEvent& event : events) bytes += tf_event_record(event);
  const auto file = read_tf_events(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->events, events);
  EXPECT_FALSE(file->cut);
}

TEST(TfEvents, FileThatWasCutAnywhereGivesTheRecordsBeforeTheCut) {
  const std::string first = tf_event_record(version()), bytes = first + tf_event_record(scalar());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto file = read_tf_events(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(file) << size << ": " << file.error().message;
    EXPECT_EQ(file->events.size(), size < first.size() ? 0u : 1u) << size;
    EXPECT_EQ(file->cut, size != 0 && size != first.size()) << size;
  }
}

TEST(TfEvents, AnyChangedBitIsSeen) {
  const std::string bytes = tf_event_record(version()) + tf_event_record(scalar());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto file = read_tf_events(changed);
    EXPECT_FALSE(file) << "bit " << bit;
  }
}

TEST(TfEvents, EventsOfOtherKindsAreSkipped) {
  // A graph definition (field 4) and a summary without a simple value are somebody else's.
  const auto file = read_tf_events(tf_record("\x22\x02xy") + tf_event_record(scalar()));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->events, std::vector<TfEvent>{scalar()});
}

TEST(TfEvents, PayloadThatIsNoMessageIsDataLoss) {
  for (const std::string& payload :
       {std::string("\x2a\x7f"), std::string("\x2a\x02\x0a\x09"), std::string(12, '\xff'),
        std::string("\x0b"), std::string("\x09zz")}) {
    const auto file = read_tf_events(tf_record(payload));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Code::kDataLoss);
  }
}

TEST(TfEvents, AnyPayloadIsReadWithoutHarm) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string payload(random() % 24, '\0');
    for (char& c : payload) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 48);
    (void)read_tf_events(tf_record(payload));
  }
}

}  // namespace
}  // namespace npu::client
