// Each accept and reject rule of the safetensors reader, and its behaviour on damaged bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <random>

#include "shm/format/safetensors.hpp"

namespace npu {
namespace {

using testing::HasSubstr;

std::vector<std::byte> file_of(std::string_view json, size_t data_bytes) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < 8; ++i) {
    out.push_back(static_cast<std::byte>(json.size() >> (8 * i) & 0xff));
  }
  for (const char c : json) out.push_back(static_cast<std::byte>(c));
  out.resize(out.size() + data_bytes, std::byte{0xAB});
  return out;
}

std::string problem_of(std::string_view json, size_t data_bytes) {
  const auto result = parse_safetensors(file_of(json, data_bytes), "f");
  if (result) return "accepted";
  EXPECT_EQ(result.error().code, Code::kDataLoss);
  return result.error().message;
}

UniqueFd memfd_of(std::span<const std::byte> bytes) {
  UniqueFd fd(::memfd_create("safetensors", MFD_CLOEXEC));
  EXPECT_TRUE(write_all(fd.get(), bytes, "memfd").has_value());
  return fd;
}

TEST(SafetensorsRead, GoldenFileGivesItsTensor) {
  const auto file = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", 8);
  auto sut = SafetensorsFile::open(memfd_of(file), "golden");
  ASSERT_TRUE(sut.has_value()) << sut.error().message;
  const TensorEntry* entry = sut->find("a");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->dtype, FileDType::kF32);
  EXPECT_EQ(entry->shape, TensorShape({2}));
  std::vector<std::byte> bytes(8);
  ASSERT_TRUE(sut->read_tensor(*entry, bytes).has_value());
  EXPECT_EQ(bytes, std::vector<std::byte>(8, std::byte{0xAB}));
  EXPECT_FALSE(sut->read_tensor(*entry, std::span(bytes).first(4)).has_value());
  EXPECT_EQ(sut->find("b"), nullptr);
}

TEST(SafetensorsRead, AnyBitsArePayload) {
  auto file = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", 8);
  const float payload[2] = {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity()};
  std::memcpy(file.data() + file.size() - 8, payload, 8);
  const auto sut = SafetensorsFile::open(memfd_of(file), "nan");
  ASSERT_TRUE(sut.has_value()) << sut.error().message;
  float got[2] = {};
  ASSERT_TRUE(sut->read_tensor(*sut->find("a"), std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(std::memcmp(got, payload, 8), 0);
}

TEST(SafetensorsRead, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(problem_of("{}", 0), "accepted");
  EXPECT_EQ(problem_of("{}      ", 0), "accepted");
  EXPECT_EQ(problem_of(R"({"__metadata__":{"a":"b","c":"d"}})", 0), "accepted");
  EXPECT_EQ(problem_of(R"({"s":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})", 1), "accepted");
  // An empty tensor may sit before, between or behind others.
  EXPECT_EQ(problem_of(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                           "a":{"dtype":"F32","shape":[0,4],"data_offsets":[2,2]},
                           "c":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                       2),
            "accepted");
  for (const char* dtype : {"F64", "I64", "U64"}) {
    EXPECT_EQ(
        problem_of(
            fmt::format(R"({{"a":{{"shape":[1],"dtype":"{}","data_offsets":[0,8]}}}})", dtype), 8),
        "accepted");
  }
}

TEST(SafetensorsRead, EntriesComeInFileOrder) {
  const auto header =
      parse_safetensors(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
                  "b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                2),
                        "f");
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->tensors[0].name, "b");
  EXPECT_EQ(header->tensors[1].name, "a");
}

TEST(SafetensorsRead, RefusesBadPrefixes) {
  const auto parse = [](std::vector<std::byte> file) {
    const auto result = parse_safetensors(file, "f");
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_THAT(parse({}), HasSubstr("too few"));
  EXPECT_THAT(parse(std::vector<std::byte>(7)), HasSubstr("too few"));
  EXPECT_THAT(parse(std::vector<std::byte>(8)), HasSubstr("too small"));
  EXPECT_THAT(parse(std::vector<std::byte>(16, std::byte{0xff})), HasSubstr("above the limit"));
  auto cut = file_of("{}      ", 0);
  cut.pop_back();
  EXPECT_THAT(parse(cut), HasSubstr("beyond the file"));
}

TEST(SafetensorsRead, RefusesBadJson) {
  EXPECT_THAT(problem_of("[]", 0), HasSubstr("does not start with"));
  EXPECT_THAT(problem_of(" {}", 0), HasSubstr("does not start with"));
  EXPECT_THAT(problem_of("{\"\xff\":{}}", 0), HasSubstr("UTF-8"));
  EXPECT_THAT(problem_of(std::string_view("{}\0\0", 4), 0), HasSubstr("NUL"));
  EXPECT_THAT(problem_of(R"({"a":[]})", 0), HasSubstr("not expected"));
  EXPECT_THAT(problem_of(R"({"a":"x"})", 0), HasSubstr("not expected"));
  EXPECT_THAT(problem_of(R"({"__metadata__":{"a":1}})", 0), HasSubstr("number is not expected"));
  EXPECT_THAT(problem_of(R"({"__metadata__":{"a":{}}})", 0), HasSubstr("object is not expected"));
  EXPECT_THAT(problem_of(R"({"__metadata__":null})", 0), HasSubstr("null"));
}

TEST(SafetensorsRead, RefusesDuplicates) {
  EXPECT_THAT(problem_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                             "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
              HasSubstr("tensor 'a' appears twice"));
  // The same name, once escaped.
  EXPECT_THAT(problem_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                             "\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
              HasSubstr("appears twice"));
  EXPECT_THAT(problem_of(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("twice"));
  EXPECT_THAT(problem_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), HasSubstr("twice"));
  EXPECT_THAT(
      problem_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      HasSubstr("twice"));
}

TEST(SafetensorsRead, RefusesBadTensors) {
  const auto with = [](std::string_view body, size_t data) {
    return problem_of(fmt::format(R"({{"a":{{{}}}}})", body), data);
  };
  EXPECT_THAT(with(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])", 1),
              HasSubstr("'F8_E4M3'"));
  // Types below a byte are none that we know, so that none can begin inside of one.
  EXPECT_THAT(with(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])", 1), HasSubstr("'F4'"));
  EXPECT_THAT(with(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])", 4), HasSubstr("'f32'"));
  EXPECT_THAT(with(R"("shape":[1],"data_offsets":[0,4])", 4), HasSubstr("needs dtype"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4), HasSubstr("two numbers"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4),
              HasSubstr("two numbers"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":[])", 4),
              HasSubstr("unknown field"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), HasSubstr("negative"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4),
              HasSubstr("unsigned"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])", 4),
              HasSubstr("not expected"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])", 4),
              HasSubstr("nested deeper"));
  EXPECT_THAT(with(R"("dtype":["F32"],"shape":[1],"data_offsets":[0,4])", 4),
              HasSubstr("not expected"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
              HasSubstr("need 8 bytes"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4),
              HasSubstr("after its end"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 7),
              HasSubstr("cut or damaged"));
  EXPECT_THAT(with(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0),
              HasSubstr("64 bits"));
  EXPECT_THAT(with(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
              HasSubstr("64 bits"));
  std::string ones = "1";
  for (size_t i = 0; i < kMaxTensorRank; ++i) ones += ",1";
  EXPECT_THAT(with(fmt::format(R"("dtype":"U8","shape":[{}],"data_offsets":[0,1])", ones), 1),
              HasSubstr("rank above 64"));
}

TEST(SafetensorsRead, RefusesGapsOverlapsAndTrailingBytes) {
  const auto two = [](int a0, int a1, int b0, int b1, size_t data) {
    return problem_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                                  R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                  a1 - a0, a0, a1, b1 - b0, b0, b1),
                      data);
  };
  EXPECT_EQ(two(0, 2, 2, 4, 4), "accepted");
  EXPECT_THAT(two(0, 2, 3, 5, 5), HasSubstr("a gap"));
  EXPECT_THAT(two(1, 2, 2, 4, 4), HasSubstr("a gap"));
  EXPECT_THAT(two(0, 3, 2, 4, 4), HasSubstr("an overlap"));
  EXPECT_THAT(two(0, 2, 0, 2, 2), HasSubstr("an overlap"));
  EXPECT_THAT(two(0, 2, 2, 4, 5), HasSubstr("belong to none"));
}

TEST(SafetensorsRead, MessagesShowHostileNamesEscaped) {
  const auto problem =
      problem_of(R"({"\u001b[2J\n":{"dtype":"X","shape":[],"data_offsets":[0,0]}})", 0);
  EXPECT_THAT(problem, HasSubstr("\\x1b[2J\\x0a"));
}

TEST(SafetensorsRead, RandomDamageNeverCrashesAndNeverBreaksTheInvariants) {
  const uint32_t seed = 20260807;
  std::mt19937 random(seed);
  const auto good = file_of(R"({"__metadata__":{"format":"pt"},)"
                            R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                            R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})",
                            32);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto file = good;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits; ++e) file[random() % file.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) file.resize(random() % file.size());
    const auto header = parse_safetensors(file, "fuzz");
    if (!header) continue;
    ++accepted;
    uint64_t position = 0;
    for (const auto& tensor : header->tensors) {
      ASSERT_EQ(tensor.begin, position) << "seed " << seed << " round " << round;
      ASSERT_EQ(tensor_bytes(tensor.dtype, tensor.shape), tensor.size_bytes());
      position = tensor.end;
    }
    ASSERT_EQ(header->data_offset + position, file.size());
  }
  EXPECT_GT(accepted, 0);  // edits of payload and names alone stay valid
}

TEST(SafetensorsFile, RefusesWhatIsNoRegularFile) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd writer(ends[1]);
  const auto sut = SafetensorsFile::open(UniqueFd(ends[0]), "pipe");
  ASSERT_FALSE(sut.has_value());
  EXPECT_EQ(sut.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace npu
