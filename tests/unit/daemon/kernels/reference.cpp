// See reference.hpp. Table look-ups only for the two 16-bit decoders, to keep the sweep fast.
#include "reference.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace npu::daemon::testing {
namespace {

/// Exact value of a binary format with `fraction` stored bits and exponent bias `bias`.
float decode(uint16_t bits, int fraction, int bias) {
  const int exponent_mask = (1 << (15 - fraction)) - 1;
  const int exponent = (bits >> fraction) & exponent_mask;
  const int rest = bits & ((1 << fraction) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    if (rest != 0) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(sign * std::numeric_limits<double>::infinity());
  }
  const int significand = exponent == 0 ? rest : rest + (1 << fraction);
  const int power = (exponent == 0 ? 1 : exponent) - bias - fraction;
  return static_cast<float>(sign * std::ldexp(significand, power));
}

/// Nearest value of the format, ties to even, as bits.
uint16_t encode(double value, int fraction, int bias) {
  const int exponent_mask = (1 << (15 - fraction)) - 1;
  const int infinity = exponent_mask << fraction;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | (1 << (fraction - 1)));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (size == 0) return static_cast<uint16_t>(sign);
  if (std::isinf(size)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  // In units of the last place; a carry into the next binade falls out of the addition below.
  const double units = std::nearbyint(std::ldexp(size, fraction - exponent));
  const int bits = ((exponent + bias - 1) << fraction) + static_cast<int>(units);
  return static_cast<uint16_t>(
      sign | (exponent + bias > exponent_mask || bits > infinity ? infinity : bits));
}

std::vector<float> decode_all(int fraction, int bias) {
  std::vector<float> table(65536);
  for (uint32_t i = 0; i < 65536; ++i) table[i] = decode(static_cast<uint16_t>(i), fraction, bias);
  return table;
}

struct HalfModel {
  using Word = uint16_t;
  using Wide = float;
  static Wide widen(Word w) { return half_to_float(w); }
  static Word narrow(Wide v) { return double_to_half(v); }
};
struct BFloatModel {
  using Word = uint16_t;
  using Wide = float;
  static Wide widen(Word w) { return bfloat_to_float(w); }
  static Word narrow(Wide v) { return double_to_bfloat(v); }
};
template <typename W, typename F, W kNan>
struct NativeModel {
  using Word = W;
  using Wide = F;
  static Wide widen(Word w) { return std::bit_cast<F>(w); }
  static Word narrow(Wide v) { return std::isnan(v) ? kNan : std::bit_cast<W>(v); }
};
using FloatModel = NativeModel<uint32_t, float, 0x7fc00000>;
using DoubleModel = NativeModel<uint64_t, double, 0x7ff8000000000000>;

template <typename F>
F extreme(F a, F b, bool maximum) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<F>::quiet_NaN();
  if (a == b) return std::signbit(a) == maximum ? b : a;  // -0 is less than +0
  return (a < b) == maximum ? b : a;
}

template <typename M>
struct FloatFold {
  using Word = typename M::Word;
  using F = typename M::Wide;
  static double square(Word w) {
    const double v = M::widen(w);
    return v * v;
  }
  static bool nonfinite(Word w) { return !std::isfinite(M::widen(w)); }
  static Word run(ReduceOp op, const Word* x, size_t ranks, double scale) {
    const F factor = static_cast<F>(op == ReduceOp::kPreMulSum ? scale : 1.0);
    F acc = M::widen(x[0]) * factor;
    for (size_t r = 1; r < ranks; ++r) {
      const F v = M::widen(x[r]) * factor;
      if (op == ReduceOp::kProd) {
        acc = acc * v;
      } else if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
        acc = extreme(acc, v, op == ReduceOp::kMax);
      } else {
        acc = acc + v;
      }
    }
    if (op == ReduceOp::kMean) acc = acc / static_cast<F>(ranks);
    return M::narrow(acc);
  }
};

template <typename T>
struct IntegerFold {
  using Word = T;
  static double square(Word w) { return static_cast<double>(w) * static_cast<double>(w); }
  static bool nonfinite(Word) { return false; }
  static Word run(ReduceOp op, const Word* x, size_t ranks, double scale) {
    const auto factor =
        op == ReduceOp::kPreMulSum ? static_cast<uint64_t>(static_cast<int64_t>(scale)) : 1U;
    T acc = static_cast<T>(static_cast<uint64_t>(x[0]) * factor);
    for (size_t r = 1; r < ranks; ++r) {
      const auto a = static_cast<uint64_t>(acc);
      const auto b = static_cast<uint64_t>(x[r]);
      switch (op) {
        case ReduceOp::kProd:
          acc = static_cast<T>(a * b);
          break;
        case ReduceOp::kMax:
          acc = x[r] > acc ? x[r] : acc;
          break;
        case ReduceOp::kMin:
          acc = x[r] < acc ? x[r] : acc;
          break;
        default:
          acc = static_cast<T>(a + b * factor);
      }
    }
    return op == ReduceOp::kMean ? static_cast<T>(acc / static_cast<T>(ranks)) : acc;
  }
};

/// Sixteen lanes by index, folded 8, 4, 2, 1.
template <typename Fold>
std::vector<double> squares_of(const std::vector<typename Fold::Word>& words) {
  std::vector<double> blocks;
  for (size_t begin = 0; begin < words.size(); begin += 4096) {
    double lane[16] = {};
    const size_t end = std::min(words.size(), begin + 4096);
    for (size_t i = begin; i < end; ++i) lane[(i - begin) % 16] += Fold::square(words[i]);
    for (size_t width = 8; width > 0; width /= 2) {
      for (size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    }
    blocks.push_back(lane[0]);
  }
  return blocks;
}

template <typename Fold>
Expected run(ReduceOp op, const std::vector<Bytes>& inputs, uint64_t count, double scale) {
  using Word = typename Fold::Word;
  std::vector<std::vector<Word>> x(inputs.size(), std::vector<Word>(count));
  std::vector<Word> out(count);
  Expected expected;
  for (size_t r = 0; r < inputs.size(); ++r) {
    if (count != 0) std::memcpy(x[r].data(), inputs[r].data(), count * sizeof(Word));
  }
  Word column[8] = {};
  for (uint64_t i = 0; i < count; ++i) {
    for (size_t r = 0; r < inputs.size(); ++r) {
      column[r] = x[r][i];
      expected.input_nonfinite = expected.input_nonfinite || Fold::nonfinite(column[r]);
    }
    out[i] = Fold::run(op, column, inputs.size(), scale);
    expected.result_nonfinite = expected.result_nonfinite || Fold::nonfinite(out[i]);
  }
  expected.squares = squares_of<Fold>(out);
  expected.result.resize(count * sizeof(Word));
  if (count != 0) std::memcpy(expected.result.data(), out.data(), expected.result.size());
  return expected;
}

uint64_t mix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

float half_to_float(uint16_t bits) {
  static const std::vector<float> table = decode_all(10, 15);
  return table[bits];
}

float bfloat_to_float(uint16_t bits) {
  static const std::vector<float> table = decode_all(7, 127);
  return table[bits];
}

uint16_t double_to_half(double value) { return encode(value, 10, 15); }
uint16_t double_to_bfloat(double value) { return encode(value, 7, 127); }

Expected reference_fold(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs, uint64_t count,
                        double scale) {
  switch (dtype) {
    case DType::kInt8:
      return run<IntegerFold<int8_t>>(op, inputs, count, scale);
    case DType::kInt16:
      return run<IntegerFold<int16_t>>(op, inputs, count, scale);
    case DType::kInt32:
      return run<IntegerFold<int32_t>>(op, inputs, count, scale);
    case DType::kInt64:
      return run<IntegerFold<int64_t>>(op, inputs, count, scale);
    case DType::kUint8:
      return run<IntegerFold<uint8_t>>(op, inputs, count, scale);
    case DType::kUint16:
      return run<IntegerFold<uint16_t>>(op, inputs, count, scale);
    case DType::kUint32:
      return run<IntegerFold<uint32_t>>(op, inputs, count, scale);
    case DType::kUint64:
      return run<IntegerFold<uint64_t>>(op, inputs, count, scale);
    case DType::kFloat16:
      return run<FloatFold<HalfModel>>(op, inputs, count, scale);
    case DType::kBFloat16:
      return run<FloatFold<BFloatModel>>(op, inputs, count, scale);
    case DType::kFloat32:
      return run<FloatFold<FloatModel>>(op, inputs, count, scale);
    case DType::kFloat64:
      return run<FloatFold<DoubleModel>>(op, inputs, count, scale);
  }
  return {};
}

Bytes make_input(DType dtype, uint64_t count, Fill fill, uint64_t seed) {
  const size_t size = dtype_size(dtype);
  Bytes bytes(count * size);
  uint64_t state = seed;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t word = mix(state);
    // Between -8 and 8, so that sums of eight stay finite in every format.
    const double value = static_cast<double>(static_cast<int64_t>(word >> 40)) * 0x1p-20 - 8.0;
    if (fill == Fill::kModerate) {
      if (dtype == DType::kFloat16) word = double_to_half(value);
      if (dtype == DType::kBFloat16) word = double_to_bfloat(value);
      if (dtype == DType::kFloat32) word = std::bit_cast<uint32_t>(static_cast<float>(value));
      if (dtype == DType::kFloat64) word = std::bit_cast<uint64_t>(value);
    }
    std::memcpy(bytes.data() + i * size, &word, size);
  }
  return bytes;
}

}  // namespace npu::daemon::testing
