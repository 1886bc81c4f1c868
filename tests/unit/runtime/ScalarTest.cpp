// Tests the scalar functions of bodies: f32 sweeps against double libm with the stated error
// bounds, integer edge cases, casts, and the 16-bit float formats exhaustively.
#include "Support.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace tenon;

namespace {

/// Distance from the exact result in units of its last place as f32.
double ulps(float got, double want) {
  if (std::isnan(want))
    return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(float(want)))
    return got == float(want) || std::abs(got) == std::numeric_limits<float>::max() ? 0 : 1e9;
  // By bits: it is asked a hundred million times.
  const int exponent = std::max(int(std::bit_cast<uint64_t>(want) >> 52 & 0x7ff) - 1022, -125);
  const auto places = std::bit_cast<double>(uint64_t(24 - exponent + 1023) << 52);
  return std::abs(double(got) - want) * places;
}

/// Largest error of `f` over every 997th f32, infinities, NaN and the zeros.
template <class L, class F, class R> void sweep(double bound, F f, R reference) {
  double worst = 0;
  float at = 0, in[L::width], out[L::width];
  const uint32_t special[] = {0,           0x80000000u, 0x7f800000u, 0xff800000u,
                              0x7fc00000u, 1,           0x80000001u, 0x7f7fffffu};
  uint64_t next = 0;
  for (size_t turn = 0; next < 0x100000000u; ++turn) {
    for (int i = 0; i < L::width; ++i) {
      const uint32_t bits = turn < 8 ? special[turn] : uint32_t(next);
      std::memcpy(&in[i], &bits, 4);
      if (turn >= 8)
        next += 997;
    }
    store<L>(out, f(L{}, load<L>(in)));
    for (int i = 0; i < L::width; ++i) {
      const double error = ulps(out[i], reference(double(in[i])));
      if (error > worst)
        worst = error, at = in[i];
    }
  }
  EXPECT_LE(worst, bound) << "at " << at;
}

#define SWEEP(name, bound, reference)                                                              \
  TEST(Scalar, name) {                                                                             \
    const auto f = [](auto lanes, auto x) { return tenon::name<decltype(lanes)>(x); };             \
    const auto r = [](double x) -> double { return reference; };                                   \
    sweep<native_lanes>(bound, f, r);                                                              \
    sweep<scalar_lanes>(bound, f, r);                                                              \
  }
SWEEP(exp, 1, std::exp(x))
SWEEP(log, 1, std::log(x))
SWEEP(tanh, 3, std::tanh(x))
SWEEP(sigmoid, 3, 1 / (1 + std::exp(-x)))
SWEEP(erf, 3, std::erf(x))
SWEEP(sqrt, 0.501, std::sqrt(x))
SWEEP(rsqrt, 2, 1 / std::sqrt(x))
SWEEP(reciprocal, 0.501, 1 / x)
SWEEP(floor, 0, std::floor(x))
SWEEP(ceil, 0, std::ceil(x))
SWEEP(trunc, 0, std::trunc(x))
SWEEP(round, 0, std::nearbyint(x))
SWEEP(abs, 0, std::abs(x))
SWEEP(neg, 0, -x)
SWEEP(relu, 0, x < 0 ? 0 : x)
SWEEP(sign, 0, std::isnan(x) ? x : double((x > 0) - (x < 0)))
SWEEP(sin, 2, std::sin(x))
SWEEP(cos, 2, std::cos(x))
SWEEP(atan, 2, std::atan(x))

/// 2^-15 of the result are 2^9 units in the last place at most.
TEST(Scalar, ShortErf) {
  sweep<native_lanes>(
      512,
      [](auto lanes, auto x) {
        using L = decltype(lanes);
        return detail::short_erf<L>(x);
      },
      [](double x) { return std::erf(x); });
}

TEST(Scalar, RoundingKeepsSignOfZero) {
  using L = native_lanes;
  float out[L::width];
  store<L>(out, tenon::ceil<L>(broadcast<L>(-0.5f)));
  EXPECT_TRUE(std::signbit(out[0]));
  store<L>(out, tenon::round<L>(broadcast<L>(-0.25f)));
  EXPECT_TRUE(std::signbit(out[0]));
}

/// Applies a binary function in native lanes and alone; both must agree. Returns the value.
template <class T, class F> auto both(T a, T b, F f) {
  using L = lanes_for<T>;
  const auto wide = f(L{}, broadcast<L>(a), broadcast<L>(b));
  const auto one = f(scalar_lanes{}, a, b);
  if constexpr (L::width > 1) {
    EXPECT_EQ(memcmp(&one, &wide, sizeof(T)), 0);
  }
  return one;
}
#define BOTH(name, a, b)                                                                           \
  both(a, b, [](auto l, auto x, auto y) { return tenon::name<decltype(l)>(x, y); })

TEST(Scalar, IntegersWrap) {
  const int32_t lowest = std::numeric_limits<int32_t>::min(),
                highest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(BOTH(add, highest, 1), lowest);
  EXPECT_EQ(BOTH(sub, lowest, 1), highest);
  EXPECT_EQ(BOTH(mul, highest, 2), -2);
  EXPECT_EQ(BOTH(div, lowest, -1), lowest);
  EXPECT_EQ(BOTH(mod, lowest, -1), 0);
  EXPECT_EQ(BOTH(add, int8_t(127), int8_t(1)), -128);
  EXPECT_EQ(BOTH(mul, uint16_t(65535), uint16_t(65535)), 1);
  EXPECT_EQ(BOTH(mul, int64_t(1) << 62, int64_t(4)), 0);
}
TEST(Scalar, DivisionAndRemainder) {
  EXPECT_EQ(BOTH(div, -7, 2), -3);
  EXPECT_EQ(BOTH(div, 7, 0), 0);
  EXPECT_EQ(BOTH(mod, -7, 3), 2);
  EXPECT_EQ(BOTH(mod, 7, -3), -2);
  EXPECT_EQ(BOTH(rem, -7, 3), -1);
  EXPECT_EQ(BOTH(mod, 7, 0), 0);
  EXPECT_EQ(BOTH(fmod, -7.5f, 2.0f), -1.5f);
  EXPECT_EQ(BOTH(mod, -7.5f, 2.0f), 0.5f);
}
TEST(Scalar, MinMaxPropagateNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(BOTH(min, nan, 1.0f)));
  EXPECT_TRUE(std::isnan(BOTH(min, 1.0f, nan)));
  EXPECT_TRUE(std::isnan(BOTH(max, nan, 1.0f)));
  EXPECT_TRUE(std::isnan(BOTH(max, 1.0f, nan)));
  EXPECT_EQ(BOTH(min, -2, 3), -2);
  EXPECT_EQ(BOTH(max, 2.0, 3.0), 3.0);
}
TEST(Scalar, PowOfIntegers) {
  EXPECT_EQ(BOTH(pow, 3, 4), 81);
  EXPECT_EQ(BOTH(pow, -2, 3), -8);
  EXPECT_EQ(BOTH(pow, 2, -1), 0);
  EXPECT_EQ(BOTH(pow, -1, -3), -1);
  EXPECT_EQ(BOTH(pow, int64_t(10), int64_t(18)), 1000000000000000000);
}
TEST(Scalar, Shifts) {
  EXPECT_EQ(BOTH(shift_left, 1u, 4u), 16u);
  EXPECT_EQ(BOTH(shift_right, 0x80000000u, 31u), 1u);
  EXPECT_EQ(BOTH(shift_right, -8, 1), -4);
  for (int outside : {32, 33, 64, -1}) {
    EXPECT_EQ(BOTH(shift_left, -8, outside), 0);
    EXPECT_EQ(BOTH(shift_right, -8, outside), -1);
    EXPECT_EQ(BOTH(shift_right, 8, outside), 0);
  }
  EXPECT_EQ(BOTH(shift_right, 0x80000000u, 32u), 0u);
  EXPECT_EQ(BOTH(shift_left, int8_t(-8), int8_t(8)), 0);
  EXPECT_EQ(BOTH(shift_right, int8_t(-8), int8_t(9)), -1);
  EXPECT_EQ(BOTH(shift_left, uint64_t(1), uint64_t(64)), 0u);
  EXPECT_EQ(BOTH(shift_left, uint8_t(0xff), uint8_t(4)), 0xf0);
}
TEST(Scalar, ArithmeticOfRequantisation) {
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const auto product = [](auto l, auto x, auto y) {
    using L = decltype(l);
    return mul_high_add<L>(x, y, broadcast<L>(int32_t(7)));
  };
  EXPECT_EQ(both(-1, 1, product), 6); // the upper half is rounded down
  EXPECT_EQ(both(lowest, lowest, product), 0x40000007);
  EXPECT_EQ(both(0x40000000, 12, product), 10);
  const auto bytes = [](int32_t a) {
    return std::pair(
        both(a, 0, [](auto l, auto x, auto) { return shift_right_to<decltype(l), int8_t, 5>(x); }),
        both(a, 0,
             [](auto l, auto x, auto) { return shift_right_to<decltype(l), uint8_t, 5>(x); }));
  };
  EXPECT_EQ(bytes(-33), std::pair(-2, 0));
  EXPECT_EQ(bytes(4095), std::pair(127, 127));
  EXPECT_EQ(bytes(8191), std::pair(127, 255));
  EXPECT_EQ(bytes(8192), std::pair(127, 255));
  EXPECT_EQ(bytes(-4096), std::pair(-128, 0));
  EXPECT_EQ(bytes(lowest), std::pair(-128, 0));
}
TEST(Scalar, RoundingShifts) {
  EXPECT_EQ(BOTH(round_shift, 5, 1), 2); // ties go to the even neighbour
  EXPECT_EQ(BOTH(round_shift, 7, 1), 4);
  EXPECT_EQ(BOTH(round_shift, -5, 1), -2);
  EXPECT_EQ(BOTH(round_shift, -7, 1), -4);
  EXPECT_EQ(BOTH(round_shift, -6, 2), -2);
  EXPECT_EQ(BOTH(round_shift, 7, 0), 7);
  EXPECT_EQ(BOTH(round_shift, -7, 0), -7);
  EXPECT_EQ(BOTH(round_shift, 0x7fffffff, 31), 1);
  EXPECT_EQ(BOTH(round_shift, 0x40000000, 31), 0);
  EXPECT_EQ(BOTH(round_shift, -0x7fffffff - 1, 32), 0);
  EXPECT_EQ(BOTH(round_shift, 0xffffffffu, 32u), 1u);
  EXPECT_EQ(BOTH(round_shift, 0x7fffffff, 33), 0);
  EXPECT_EQ(BOTH(round_shift, int64_t(3) << 39, int64_t(40)), 2);
  EXPECT_EQ(BOTH(round_shift, -(int64_t(3) << 39) - 1, int64_t(40)), -2);
  EXPECT_EQ(BOTH(round_shift, int64_t(1) << 62, int64_t(63)), 0);
}
/// What fills two registers is computed by halves: each lane is what it is alone.
template <class L> void expectLanesAlone() {
  if constexpr (L::width > 1) {
    i64<L> x{}, count{}, low{}, high{};
    for (int i = 0; i < L::width; ++i) {
      x[i] = (int64_t(i) * 0x123456789abcdef - (int64_t(1) << 61)) | (i % 3);
      count[i] = 3 * i;
      low[i] = -(int64_t(1) << (2 * i + 20));
      high[i] = int64_t(1) << (3 * i + 10);
    }
    const i64<L> shifted = round_shift<L>(x, count), clamped = clamp<L>(x, low, high);
    for (int i = 0; i < L::width; ++i) {
      EXPECT_EQ(shifted[i], round_shift<scalar_lanes>(int64_t(x[i]), int64_t(count[i])));
      EXPECT_EQ(clamped[i], clamp<scalar_lanes>(int64_t(x[i]), int64_t(low[i]), int64_t(high[i])));
    }
  }
}
TEST(Scalar, LanesOfTwoRegisters) { expectLanesAlone<native_lanes>(); }
/// Against the definition, in exact wider arithmetic.
TEST(Scalar, RoundingShiftsOfAll16BitValues) {
  for (int count = 0; count <= 16; ++count)
    for (int a = -32768; a < 32768; ++a) {
      const double exact = std::ldexp(double(a), -count);
      ASSERT_EQ(tenon::round_shift<scalar_lanes>(int16_t(a), int16_t(count)),
                int16_t(std::nearbyint(exact)))
          << a << " >> " << count;
    }
}
TEST(Scalar, HighHalfOfAProduct) {
  const int32_t least = -0x7fffffff - 1;
  const int32_t values[] = {0, 1, -1, 3, -3, 0x10000, -0x10001, 0x7fffffff, least, 123456789};
  using L = native_lanes;
  for (int32_t a : values)
    for (int32_t b : values) {
      const auto expected = int32_t((int64_t(a) * b) >> 32);
      EXPECT_EQ(tenon::mul_high<scalar_lanes>(a, b), expected);
      int32_t out[L::width];
      store<L>(out, tenon::mul_high<L>(broadcast<L>(a), broadcast<L>(b)));
      for (int32_t v : out)
        EXPECT_EQ(v, expected);
    }
}
TEST(Scalar, Comparisons) {
  using L = lanes_for<double>;
  double out[L::width];
  store<L>(out, tenon::select<L>(tenon::less<L>(broadcast<L>(1.0), broadcast<L>(2.0)),
                                 broadcast<L>(5.0), broadcast<L>(6.0)));
  EXPECT_EQ(out[L::width - 1], 5.0);
  bool flags[L::width];
  store<L>(flags, tenon::logical_not<L>(tenon::less<L>(broadcast<L>(1.0), broadcast<L>(2.0))));
  EXPECT_FALSE(flags[0]);
  EXPECT_TRUE(tenon::isinf<scalar_lanes>(-INFINITY));
  EXPECT_TRUE((tenon::isnan<scalar_lanes>)(NAN));
}

TEST(Scalar, FusedMultiplyAdd) {
  // (1 + e)(1 - e) - 1 = -e^2 only without a rounding in between.
  const float e = 1.0f / 8192;
  using L = native_lanes;
  float out[L::width];
  store<L>(out, tenon::fma<L>(broadcast<L>(1 + e), broadcast<L>(1 - e), broadcast<L>(-1.0f)));
  EXPECT_EQ(out[0], -e * e);
}

template <class To, class From> auto castBoth(From x) {
  using L = lanes_for<To, From, float>;
  compute_t<To> out[L::width];
  store<L>(out, tenon::cast<L, To, From>(broadcast<L, compute_t<From>>(x)));
  const auto one = tenon::cast<scalar_lanes, To, From>(x);
  EXPECT_EQ(one, out[0]);
  return one;
}
TEST(Scalar, CastSaturatesFromFloat) {
  EXPECT_EQ((castBoth<int32_t, float>(3e9f)), std::numeric_limits<int32_t>::max());
  EXPECT_EQ((castBoth<int32_t, float>(-3e9f)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ((castBoth<int32_t, float>(-2.9f)), -2);
  EXPECT_EQ((castBoth<int8_t, float>(200.0f)), 127);
  EXPECT_EQ((castBoth<uint8_t, float>(-1.5f)), 0);
  EXPECT_EQ((castBoth<uint8_t, float>(255.9f)), 255);
  EXPECT_EQ((castBoth<int64_t, float>(1e19f)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((castBoth<uint64_t, double>(1e19)), 10000000000000000000ull);
  EXPECT_EQ((castBoth<int32_t, float>(NAN)), 0);
  EXPECT_EQ((castBoth<int32_t, double>(-2147483648.0)), std::numeric_limits<int32_t>::min());
}
TEST(Scalar, CastOthers) {
  EXPECT_EQ((castBoth<int8_t, int32_t>(300)), 44);
  EXPECT_EQ((castBoth<float, bool>(true)), 1.0f);
  EXPECT_EQ((castBoth<int64_t, bool>(true)), 1);
  EXPECT_EQ((castBoth<float, uint8_t>(200)), 200.0f);
  EXPECT_EQ((castBoth<double, int64_t>(-5)), -5.0);
  EXPECT_EQ((castBoth<f16, float>(1.0f + 1.0f / 2048)), 1.0f);
  EXPECT_EQ((castBoth<bf16, float>(1.0f + 3.0f / 256)), 1.015625f);
  EXPECT_TRUE((tenon::cast<scalar_lanes, bool, float>(NAN)));
}

TEST(Scalar, QuantizeRoundsHalfToEvenAndSaturates) {
  using L = native_lanes;
  const float x[] = {0.5f, 1.5f, -0.5f, -1.5f, 1000, -1000, 2.4f, 63.49f, INFINITY, -INFINITY, NAN};
  const int want[] = {3, 5, 3, 1, 127, -128, 5, 66, 127, -128, 0};
  for (int i = 0; i < 11; ++i) {
    int8_t out[L::width];
    store<L>(out, tenon::quantize<L, int8_t>(broadcast<L>(x[i]), broadcast<L>(1.0f),
                                             broadcast<L>(int8_t(3))));
    EXPECT_EQ(out[0], want[i]) << x[i];
    EXPECT_EQ((tenon::quantize<scalar_lanes, int8_t>(x[i], 1.0f, int8_t(3))), want[i]);
  }
  float back[L::width];
  store<L>(back, tenon::dequantize<L>(broadcast<L>(uint8_t(250)), broadcast<L>(0.5f),
                                      broadcast<L>(uint8_t(128))));
  EXPECT_EQ(back[0], 61.0f);
}

/// Every 16-bit pattern survives a round trip, and every rounding boundary goes to the even side.
template <class T, class Decode> void checkStorage(Decode decode, int significandBits) {
  using L = native_lanes;
  for (uint32_t bits = 0; bits < 0x10000; bits += 1) {
    T in[L::width], out[L::width];
    for (T &t : in)
      t.bits = uint16_t(bits);
    const double want = decode(bits);
    float x[L::width];
    store<L>(x, load<L>(in));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(x[0]));
      store<L>(out, load<L>(in));
      EXPECT_TRUE(std::isnan(load_element(out)));
      continue;
    }
    ASSERT_EQ(double(x[0]), want) << bits;
    store<L>(out, load<L>(in));
    ASSERT_EQ(out[0].bits, bits);
    // The midpoint to the next larger magnitude.
    const double next = decode(bits + 1);
    if ((bits & 0x7fff) == 0x7fff || std::isnan(next))
      continue;
    const double above = std::isinf(next) ? want + (want - decode(bits - 1)) : next;
    if (std::isinf(want) || (bits & 0x7fff) == 0)
      continue;
    store<L>(out, broadcast<L>(float((want + above) / 2)));
    ASSERT_EQ(out[L::width - 1].bits, bits % 2 ? bits + 1 : bits) << bits << " " << significandBits;
  }
}
TEST(Scalar, HalfStorage) {
  checkStorage<f16>(
      [](uint32_t b) -> double {
        const int e = (b >> 10) & 31, m = b & 1023;
        const double v = e == 31 ? (m ? NAN : INFINITY)
                         : e     ? std::ldexp(1024 + m, e - 25)
                                 : std::ldexp(m, -24);
        return b & 0x8000 ? -v : v;
      },
      10);
}
TEST(Scalar, BfloatStorage) {
  checkStorage<bf16>(
      [](uint32_t b) -> double {
        const uint32_t wide = b << 16;
        float v;
        std::memcpy(&v, &wide, 4);
        return v;
      },
      7);
}

TEST(Lanes, PartialTouchesNothingElse) {
  using L = native_lanes;
  float data[2 * 64], out[2 * 64];
  for (int i = 0; i < 128; ++i)
    data[i] = float(i + 1), out[i] = -1;
  for (int n = 0; n <= L::width; ++n) {
    const auto v = load_partial<L>(data + 1, n);
    float all[L::width];
    store<L>(all, v);
    for (int i = 0; i < L::width; ++i)
      EXPECT_EQ(all[i], i < n ? float(i + 2) : 0.0f);
    store_partial<L>(out + 3, load<L>(data), n);
    for (int i = 0; i < 128; ++i)
      EXPECT_EQ(out[i], i >= 3 && i < 3 + n ? float(i - 2) : -1.0f);
    for (float &o : out)
      o = -1;
  }
}
/// Words `stride` apart, all of the lanes and fewer; those that are missing read as zero.
template <class T, class Stride> void checkStrided(Stride stride) {
  using L = native_lanes;
  const index_t step = stride;
  T data[64 * 16];
  for (int i = 0; i < 64 * 16; ++i)
    data[i] = T(i + 1);
  for (index_t n = 1; n <= L::width; ++n) {
    T all[L::width];
    store<L>(all, load_strided<L>(data + 3, stride, n));
    for (int i = 0; i < L::width; ++i)
      EXPECT_EQ(all[i], i < n ? data[3 + i * step] : T(0)) << step << ", " << n << " lanes";
  }
}
TEST(Lanes, StridedWords) {
  checkStrided<float>(fixed<1>{});
  checkStrided<float>(fixed<2>{});
  checkStrided<float>(fixed<3>{});
  checkStrided<float>(dyn(1));
  checkStrided<float>(dyn(13));
  checkStrided<int32_t>(fixed<5>{});
  checkStrided<int32_t>(dyn(2));
  checkStrided<double>(fixed<3>{});
}
TEST(Lanes, PartialIntegersTouchNothingElse) {
  using L = native_lanes;
  int32_t data[64], out[64];
  for (int i = 0; i < 64; ++i)
    data[i] = -1 - i;
  for (int n = 0; n <= L::width; ++n) {
    for (int32_t &o : out)
      o = 7;
    store_partial<L>(out + 1, load_partial<L>(data + 2, n), n);
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], i >= 1 && i < 1 + n ? -2 - i : 7) << n;
  }
}
TEST(Lanes, StridedAndBoolean) {
  using L = native_lanes;
  int16_t data[3 * 64];
  for (int i = 0; i < 192; ++i)
    data[i] = int16_t(i);
  int16_t out[3 * 64] = {};
  store_strided<L>(out, dyn(2), load_strided<L>(data, fixed<3>{}), L::width);
  for (int i = 0; i < L::width; ++i)
    EXPECT_EQ(out[2 * i], 3 * i);
  bool flags[64], copy[64];
  for (int i = 0; i < 64; ++i)
    flags[i] = i % 3 == 0;
  store<L>(copy, load<L>(flags));
  for (int i = 0; i < L::width; ++i)
    EXPECT_EQ(copy[i], flags[i]);
}

} // namespace
