// Tests cpu::matmul_narrow_bytes: rows rounded as its head says, sums in double.
#include "Support.h"
#include "cpu/matmul_narrow_bytes.h"

#include <limits>

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Bias {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

struct Base : matmul_narrow_bytes_defaults {
  static constexpr fixed<2> batch0{};
  static constexpr fixed<5> m{};
  static constexpr fixed<3 * W + 1> n{};
  static constexpr fixed<32> block{};
  static constexpr fixed<5 * 32> k{};
  static constexpr int mr = 4, rows_at_once = 7;
};

/// A row as signed bytes and a scale for each block.
std::vector<double> roundedRow(const float *row, index_t k, index_t block) {
  std::vector<double> y(static_cast<size_t>(k));
  for (index_t b = 0; b < k; b += block) {
    float most = 0;
    for (index_t i = b; i < b + block; ++i)
      most = std::max(most, std::fabs(row[i]));
    const float by = most > 0 ? 127 / most : 0;
    for (index_t i = b; i < b + block; ++i)
      y[size_t(i)] = std::nearbyint(row[i] * by) * double(most / 127);
  }
  return y;
}

/// Columns `bits` wide of elements as the kernel reads them, from rows of [n][k].
template <int Bits>
std::vector<unsigned char> panels(const std::vector<unsigned char> &rows, index_t n, index_t k) {
  constexpr index_t run = 4; // bytes
  const index_t row = k * Bits / 8, blocks = ceil_div(n, W);
  std::vector<unsigned char> to(size_t(blocks * W * row), 0);
  for (index_t i = 0; i < n; ++i)
    for (index_t j = 0; j < row; ++j)
      to[size_t(((i / W * (row / run) + j / run) * W + i % W) * run + j % run)] =
          rows[size_t(i * row + j)];
  return to;
}
std::vector<float> panelsOf(const std::vector<float> &rows, index_t n, index_t blocks) {
  std::vector<float> to(size_t(ceil_div(n, W) * W * blocks), 0);
  for (index_t i = 0; i < n; ++i)
    for (index_t b = 0; b < blocks; ++b)
      to[size_t((i / W * blocks + b) * W + i % W)] = rows[size_t(i * blocks + b)];
  return to;
}

template <class Element, int Bits>
int weightAt(const std::vector<unsigned char> &bytes, index_t i) {
  constexpr bool isSigned = tenon::detail::is_signed<compute_t<Element>>;
  const int bits = bytes[size_t(i * Bits / 8)] >> (i * Bits % 8) & ((1 << Bits) - 1);
  return isSigned && bits >> (Bits - 1) ? bits - (1 << Bits) : bits;
}

/// One kernel's products with the ways that this machine has, and with the others.
template <class Cfg, class Element, int Bits, bool Zeros> struct Case {
  Cfg cfg;
  const index_t M = cfg.batch0 * cfg.batch1 * cfg.m, N = cfg.n, K = cfg.k, B = K / cfg.block;
  std::vector<float> a = randomFloats(M * K, 1);
  std::vector<float> scale = randomFloats(N * B, 2), bias = randomFloats(N, 3),
                     zero = randomFloats(N * B, 4);
  std::vector<unsigned char> bytes;
  std::vector<double> want;

  Case() : bytes(size_t(N * K * Bits / 8)) {
    for (float &z : zero)
      z = std::round(z * 3);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(i * 2654435761u >> 7);
  }
  void expect() {
    want.resize(size_t(M * N));
    for (index_t m = 0; m < M; ++m) {
      const auto row = roundedRow(&a[size_t(m * K)], K, cfg.block);
      for (index_t n = 0; n < N; ++n) {
        double sum = bias[size_t(n)];
        for (index_t k = 0; k < K; ++k) {
          const auto at = size_t(n * B + k / cfg.block);
          sum += row[size_t(k)] *
                 (weightAt<Element, Bits>(bytes, n * K + k) - (Zeros ? double(zero[at]) : 0)) *
                 double(scale[at]);
        }
        want[size_t(m * N + n)] = sum;
      }
    }
  }
  /// The result by `kernel`, a call with all operands but the way of products.
  template <class Call> std::vector<float> run(const Call &kernel) {
    std::vector<float> y(size_t(M * N));
    const auto packed = panels<Bits>(bytes, N, K);
    const auto scales = panelsOf(scale, N, B), zeros = panelsOf(zero, N, B);
    std::vector<uint32_t> rounded(size_t(narrow_rows_words(K, cfg.block) * Cfg::rows_at_once));
    pool workers(2);
    const auto view4 = [&](auto *p, index_t columns) {
      return make_view(p, dims<dyn, dyn, dyn, fixed<1>>(dyn(index_t(cfg.m) * columns),
                                                        dyn(index_t(cfg.m) * columns), dyn(columns),
                                                        {}));
    };
    const auto ins =
        pack(make_view(static_cast<const float *>(bias.data()), extents<0, 0, 0, 1>()));
    const auto with = [&](auto w, auto z) {
      kernel(cfg, view4(static_cast<const float *>(a.data()), K), w, scales.data(), z,
             rounded.data(), pack(view4(y.data(), N)), ins, Bias{}, workers);
    };
    const auto all = [&](auto w) {
      if constexpr (Zeros)
        with(w, static_cast<const float *>(zeros.data()));
      else
        with(w, no_zero_points{});
    };
    if constexpr (Bits < 8)
      all(packed_pointer<const Element>{packed.data(), 0});
    else
      all(reinterpret_cast<const Element *>(packed.data()));
    return y;
  }
};

template <class Cfg, class Element, int Bits, bool Zeros> void check() {
  Case<Cfg, Element, Bits, Zeros> c;
  c.expect();
  expectClose(c.run([](auto &&...all) { matmul_narrow_bytes(all...); }), c.want);
  const auto by = [&](auto how) {
    expectClose(
        c.run([](auto &&...all) { cpu::detail::matmul_narrow_bytes_by<decltype(how)>(all...); }),
        c.want);
  };
  by(narrow_pairs{});
#if TENON_BYTE_PAIRS
  if constexpr (Bits < 8)
    by(narrow_bytes<Bits>{});
#endif
}

TEST(MatMulNarrowBytes, FourBits) { check<Base, int4_t, 4, false>(); }
TEST(MatMulNarrowBytes, FourBitsUnsigned) { check<Base, uint4_t, 4, false>(); }
TEST(MatMulNarrowBytes, FourBitsZeroPoints) { check<Base, uint4_t, 4, true>(); }
TEST(MatMulNarrowBytes, TwoBits) { check<Base, int2_t, 2, true>(); }
TEST(MatMulNarrowBytes, TwoBitsUnsigned) { check<Base, uint2_t, 2, false>(); }
TEST(MatMulNarrowBytes, Bytes) { check<Base, int8_t, 8, false>(); }
TEST(MatMulNarrowBytes, BytesZeroPoints) { check<Base, int8_t, 8, true>(); }
TEST(MatMulNarrowBytes, BytesUnsigned) { check<Base, uint8_t, 8, true>(); }
/// Blocks that sums of 16 bits do not hold, and that are not unrolled.
struct Long : Base {
  static constexpr fixed<1> batch0{};
  static constexpr fixed<1> m{};
  static constexpr fixed<320> block{};
  static constexpr fixed<640> k{};
  static constexpr int mr = 1;
};
TEST(MatMulNarrowBytes, LongBlocks) { check<Long, int4_t, 4, true>(); }
TEST(MatMulNarrowBytes, LongBlocksOfTwoBits) { check<Long, int2_t, 2, false>(); }
TEST(MatMulNarrowBytes, LongBlocksOfBytes) { check<Long, uint8_t, 8, false>(); }
struct Short : Base {
  static constexpr fixed<16> block{};
  static constexpr fixed<3> n{};
  static constexpr int mr = 8, rows_at_once = 64;
};
TEST(MatMulNarrowBytes, ShortBlocksFewColumns) { check<Short, int4_t, 4, false>(); }

/// Sums of 16 bits at their bound: every weight and every element the largest.
TEST(MatMulNarrowBytes, LargestSums) {
  Case<Long, uint4_t, 4, false> c;
  std::fill(c.bytes.begin(), c.bytes.end(), static_cast<unsigned char>(0xff));
  std::fill(c.a.begin(), c.a.end(), 3.0f);
  c.expect();
  expectClose(c.run([](auto &&...all) { matmul_narrow_bytes(all...); }), c.want);
#if TENON_BYTE_PAIRS
  expectClose(
      c.run([](auto &&...all) { cpu::detail::matmul_narrow_bytes_by<narrow_bytes<4>>(all...); }),
      c.want);
#endif
}

/// A NaN anywhere in a row reaches all of its results and no other row's; so does an infinity, as
/// one or as NaN. Blocks of zeros and of subnormal numbers are zeros.
TEST(MatMulNarrowBytes, NumbersThatHaveNoScale) {
  Case<Base, int4_t, 4, false> c;
  const index_t K = c.K, N = c.N;
  c.a[size_t(1 * K + 40)] = std::numeric_limits<float>::quiet_NaN();
  c.a[size_t(3 * K + 7)] = -std::numeric_limits<float>::infinity();
  for (index_t i = 0; i < K; ++i) {
    c.a[size_t(5 * K + i)] = 0;
    c.a[size_t(6 * K + i)] = 1e-41f;
  }
  const auto y = c.run([](auto &&...all) { matmul_narrow_bytes(all...); });
  for (index_t m = 0; m < c.M; ++m)
    for (index_t n = 0; n < N; ++n) {
      const float v = y[size_t(m * N + n)];
      if (m == 1)
        EXPECT_TRUE(std::isnan(v));
      else if (m == 3)
        EXPECT_FALSE(std::isfinite(v));
      else if (m == 5 || m == 6)
        EXPECT_EQ(v, c.bias[size_t(n)]);
      else
        EXPECT_TRUE(std::isfinite(v)) << m;
    }
}

} // namespace
