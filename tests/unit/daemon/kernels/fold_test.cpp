// The sweep: every dtype, reduction, level, rank count and odd size against the scalar model, in
// place, out of place and through the ring functions, with guard bytes and element alignment only.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "reference.hpp"

namespace npu::daemon::testing {
namespace {

constexpr std::array<uint64_t, 12> kSizes = {0,  1,    7,    31,   33,   63,
                                             65, 1023, 1025, 4096, 4097, 10007};
constexpr std::array<const char*, 3> kLevelNames = {"plain", "avx2", "avx512"};
constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

/// One rank's memory: guards around `bytes` bytes that start `shift` bytes after a 64-byte
/// boundary.
class Guarded {
 public:
  Guarded(size_t bytes, size_t shift)
      : bytes_(bytes), storage_(bytes + 3 * kGuard + shift, kGuardByte) {
    void* p = storage_.data() + kGuard;
    size_t space = storage_.size() - kGuard;
    std::align(64, 1, p, space);
    data_ = static_cast<std::byte*>(p) + shift;
  }
  std::byte* data() { return data_; }
  void fill(const Bytes& from) {
    if (bytes_ != 0) std::memcpy(data_, from.data(), bytes_);
  }
  bool equals(const Bytes& other) const {
    return bytes_ == 0 || std::memcmp(data_, other.data(), bytes_) == 0;
  }
  bool guards_intact() const {
    for (const std::byte* p = storage_.data(); p < data_; ++p) {
      if (*p != kGuardByte) return false;
    }
    for (const std::byte* p = data_ + bytes_; p < storage_.data() + storage_.size(); ++p) {
      if (*p != kGuardByte) return false;
    }
    return true;
  }

 private:
  size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
};

struct Case {
  DType dtype;
  ReduceOp op;
  uint32_t ranks;
  uint64_t count;
  double scale;
  std::vector<Bytes> inputs;
  Expected expected;
  std::string name;
};

Case make_case(DType dtype, ReduceOp op, uint32_t ranks, uint64_t count, Fill fill) {
  const bool integer = dtype != DType::kFloat16 && dtype != DType::kBFloat16 &&
                       dtype != DType::kFloat32 && dtype != DType::kFloat64;
  Case c{dtype, op, ranks, count, integer ? 3.0 : 0.3, {}, {}, {}};
  for (uint32_t r = 0; r < ranks; ++r) {
    c.inputs.push_back(make_input(dtype, count, fill, 1000 * r + count));
  }
  c.expected = reference_fold(dtype, op, c.inputs, count, c.scale);
  c.name = std::string(dtype_name(dtype)) + " " + std::string(reduce_op_name(op)) + " ranks " +
           std::to_string(ranks) + " count " + std::to_string(count) + " fill " +
           std::to_string(static_cast<int>(fill));
  return c;
}

void expect_by_products(const Case& c, const ByProducts& by, const std::vector<double>& squares) {
  EXPECT_EQ(by.input_nonfinite, c.expected.input_nonfinite);
  EXPECT_EQ(by.result_nonfinite, c.expected.result_nonfinite);
  EXPECT_TRUE(squares.empty() || std::memcmp(squares.data(), c.expected.squares.data(),
                                             squares.size() * sizeof(double)) == 0)
      << squares[0] << " instead of " << c.expected.squares[0];
}

/// targets: 0 = in place, else that many outputs of their own.
void expect_fold(const ReduceKernel& sut, const Case& c, uint32_t targets, bool shifted,
                 bool stream) {
  const size_t size = dtype_size(c.dtype);
  std::vector<Guarded> in;
  std::vector<Guarded> out;
  std::vector<const std::byte*> src;
  std::vector<std::byte*> dst;
  for (uint32_t r = 0; r < c.ranks; ++r) {
    in.emplace_back(c.count * size, shifted ? (r + 1) * size : 0);
    in[r].fill(c.inputs[r]);
  }
  for (uint32_t j = 0; j < targets; ++j) out.emplace_back(c.count * size, shifted ? size : 0);
  std::vector<Guarded>& result = targets == 0 ? in : out;
  for (Guarded& g : in) src.push_back(g.data());
  for (Guarded& g : result) dst.push_back(g.data());
  std::vector<double> squares(stream ? 0 : c.expected.squares.size());
  ByProducts by{.block_sum_squares = squares.empty() ? nullptr : squares.data()};

  sut.fold({.src = src.data(),
            .ranks = c.ranks,
            .dst = dst.data(),
            .dst_count = static_cast<uint32_t>(dst.size()),
            .count = c.count,
            .scale = c.scale,
            .nontemporal = stream},
           by);

  for (uint32_t j = 0; j < dst.size(); ++j)
    EXPECT_TRUE(result[j].equals(c.expected.result)) << "dst " << j;
  for (Guarded& g : result) EXPECT_TRUE(g.guards_intact());
  for (uint32_t r = 0; r < c.ranks; ++r) {
    EXPECT_TRUE(in[r].guards_intact());
    EXPECT_TRUE(targets == 0 || in[r].equals(c.inputs[r])) << "input " << r << " changed";
  }
  expect_by_products(c, by, squares);
}

void expect_ring(const ReduceKernel& sut, const Case& c) {
  const size_t size = dtype_size(c.dtype);
  Guarded acc(c.count * sut.acc_size, sut.acc_size);
  Guarded out(c.count * size, size);
  std::vector<double> squares(c.expected.squares.size());
  ByProducts by{.block_sum_squares = squares.empty() ? nullptr : squares.data()};

  bool seen = sut.begin(acc.data(), c.inputs[0].data(), c.count, c.scale);
  for (uint32_t r = 1; r < c.ranks; ++r) {
    seen = sut.step(acc.data(), c.inputs[r].data(), c.count, c.scale) || seen;
  }
  sut.finish(out.data(), acc.data(), c.count, c.ranks, by);

  EXPECT_TRUE(out.equals(c.expected.result));
  EXPECT_TRUE(acc.guards_intact());
  EXPECT_TRUE(out.guards_intact());
  bool scanned = false;
  for (const Bytes& input : c.inputs)
    scanned = sut.scan_nonfinite(input.data(), c.count) || scanned;
  EXPECT_EQ(scanned, c.expected.input_nonfinite);
  by.input_nonfinite = seen || (by.result_nonfinite && scanned);
  expect_by_products(c, by, squares);
}

class FoldSweep : public ::testing::TestWithParam<uint8_t> {};

TEST_P(FoldSweep, EveryLevelEqualsTheScalarModel) {
  const auto dtype = static_cast<DType>(GetParam());
  for (uint8_t op = 0; op < kReduceOpCount; ++op) {
    for (uint32_t ranks = 1; ranks <= kMaxFoldRanks; ++ranks) {
      for (const uint64_t count : kSizes) {
        for (const Fill fill : {Fill::kModerate, Fill::kAnyBits}) {
          const Case c = make_case(dtype, static_cast<ReduceOp>(op), ranks, count, fill);
          for (const char* level : kLevelNames) {
            const ReduceKernel* sut = reduce_kernel_at(level, dtype, c.op);
            if (sut == nullptr) continue;
            SCOPED_TRACE(c.name + " level " + level);
            expect_fold(*sut, c, 0, true, false);
            expect_fold(*sut, c, ranks == 3 ? 2 : 1, fill == Fill::kModerate, false);
            if (ranks % 3 == 2) expect_fold(*sut, c, ranks, false, true);
            expect_ring(*sut, c);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, FoldSweep, ::testing::Range(uint8_t{0}, kDTypeCount),
                         [](const auto& param_info) {
                           return std::string(dtype_name(static_cast<DType>(param_info.param)));
                         });

TEST(ReduceKernelTable, EveryEntryIsComplete) {
  for (const char* level : kLevelNames) {
    for (uint8_t d = 0; d < kDTypeCount; ++d) {
      for (uint8_t op = 0; op < kReduceOpCount; ++op) {
        for (const auto mode : {Accumulate::kDefault, Accumulate::kStrict}) {
          const ReduceKernel* sut =
              reduce_kernel_at(level, static_cast<DType>(d), static_cast<ReduceOp>(op), mode);
          if (sut == nullptr) continue;
          EXPECT_TRUE(sut->fold && sut->begin && sut->step && sut->finish && sut->scan_nonfinite);
          EXPECT_GE(sut->acc_size, dtype_size(static_cast<DType>(d)));
        }
      }
    }
  }
  EXPECT_NE(reduce_kernel_at("plain", DType::kInt8, ReduceOp::kSum), nullptr);
  EXPECT_EQ(reduce_kernel_at("mmx", DType::kInt8, ReduceOp::kSum), nullptr);
  EXPECT_NE(reduce_kernel_at(reduce_kernel_level(), DType::kInt8, ReduceOp::kSum), nullptr);
}

}  // namespace
}  // namespace npu::daemon::testing
