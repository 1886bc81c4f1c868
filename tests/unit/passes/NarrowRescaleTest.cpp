// Tests of the 32-bit forms of rescaled sums: whatever they offer equals the definition for every
// combination of values, and they offer nothing where that cannot be.
#include "passes/NarrowRescale.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

/// Half to even by division, in 128 bits.
int64_t rescaled(const ScaledSum &sum, llvm::ArrayRef<int64_t> n, size_t c) {
  __int128 s = sum.addendAt(c);
  for (size_t t = 0; t < n.size(); ++t)
    s += __int128(n[t]) * sum.fixed.multiplier(t, c);
  const __int128 unit = __int128(1) << sum.fixed.shift(c);
  __int128 q = s / unit, rest = s % unit;
  if (rest < 0)
    rest += unit, --q;
  if (2 * rest > unit || (2 * rest == unit && q % 2 != 0))
    ++q;
  return std::min<int64_t>(std::max<int64_t>(int64_t(q), sum.low), sum.high);
}

int32_t wrapped(int64_t v) { return int32_t(uint32_t(uint64_t(v))); }

int64_t byHighProducts(const ScaledSum &sum, const HighProducts &p, llvm::ArrayRef<int64_t> n,
                       size_t c) {
  int32_t s = 0;
  for (size_t t = 0; t < n.size(); ++t) {
    const int32_t x = wrapped(n[t] << p.before);
    EXPECT_EQ(x >> p.before, n[t]);
    s = wrapped(int64_t(s) + ((int64_t(x) * sum.fixed.multiplier(t, c)) >> 32));
  }
  s = wrapped(int64_t(s) + p.half[p.half.size() == 1 ? 0 : c]);
  return std::min(std::max<int64_t>(s >> p.after[p.after.size() == 1 ? 0 : c], sum.low), sum.high);
}

int64_t byShortProducts(const ScaledSum &sum, const ShortProducts &p, llvm::ArrayRef<int64_t> n,
                        size_t c) {
  const ScaledSum less{p.fixed, sum.terms, p.addend, sum.low, sum.high};
  for (size_t t = 0; t < n.size(); ++t)
    EXPECT_LT(std::abs(n[t] * p.fixed.multiplier(t, c)), int64_t(1) << 31);
  return rescaled(less, n, c);
}

/// All pairs of values of two terms, or all values of one.
template <class F> void eachValue(const ScaledSum &sum, size_t c, F f) {
  const Range a = sum.range(0, c), b = sum.terms.size() == 2 ? sum.range(1, c) : Range();
  for (int64_t x = a.low; x <= a.high; ++x)
    for (int64_t y = b.low; y <= b.high; ++y)
      f(llvm::ArrayRef<int64_t>({x, y}).take_front(sum.terms.size()));
}

TEST(HighProducts, PairsOfBytesAreExactWhereOffered) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> scale(0.05, 2.5);
  std::uniform_int_distribution<int64_t> zero(-128, 127);
  int offered = 0;
  constexpr int cases = 40;
  for (int i = 0; i < cases; ++i) {
    const auto fixed = toFixedPoint({PerChannel{scale(random)}, PerChannel{scale(random)}});
    ASSERT_TRUE(fixed);
    const int64_t za = zero(random), zb = zero(random), zy = zero(random);
    const ScaledSum sum{
        *fixed, {{{-128 - za, 127 - za}}, {{-128 - zb, 127 - zb}}}, {}, -128 - zy, 127 - zy};
    const auto p = toHighProducts(sum);
    if (!p)
      continue;
    ++offered;
    eachValue(sum, 0, [&](llvm::ArrayRef<int64_t> n) {
      ASSERT_EQ(byHighProducts(sum, *p, n, 0), rescaled(sum, n, 0));
    });
  }
  EXPECT_GT(offered, cases * 3 / 4);
}

TEST(HighProducts, AddendsAndChannels) {
  const auto fixed = toFixedPoint({PerChannel{0.37, 0.0021, 1.9}, PerChannel{0.611}});
  ASSERT_TRUE(fixed);
  const std::vector<int64_t> addend{int64_t(1) << 29, -12345678, 0};
  const ScaledSum sum{*fixed, {{{-200, 55}}, {{0, 255}}}, addend, -128, 127};
  const auto p = toHighProducts(sum);
  ASSERT_TRUE(p);
  for (size_t c = 0; c < 3; ++c)
    eachValue(sum, c, [&](llvm::ArrayRef<int64_t> n) {
      ASSERT_EQ(byHighProducts(sum, *p, n, c), rescaled(sum, n, c));
    });
}

TEST(HighProducts, OneLargeTermWithoutTies) {
  const auto fixed = toFixedPoint({PerChannel{0.00123, 0.00077}});
  const ScaledSum sum{*fixed, {{{-1000000, 1000000}}}, {}, -128, 127};
  const auto p = toHighProducts(sum);
  ASSERT_TRUE(p);
  for (size_t c = 0; c < 2; ++c)
    for (int64_t n = -1000000; n <= 1000000; n += 7)
      ASSERT_EQ(byHighProducts(sum, *p, {n}, c), rescaled(sum, {n}, c));
}

TEST(HighProducts, NotWhereTiesGoBothWays) {
  const auto halves = toFixedPoint({PerChannel{0.5}, PerChannel{0.5}});
  EXPECT_FALSE(toHighProducts({*halves, {{{-128, 127}}, {{-128, 127}}}, {}, -128, 127}).hasValue());
  const auto half = toFixedPoint({PerChannel{0.5}});
  EXPECT_FALSE(toHighProducts({*half, {{{-128, 127}}}, {}, -128, 127}).hasValue());
  // Large terms cannot be tried out.
  const auto any = toFixedPoint({PerChannel{0.0123}, PerChannel{0.0456}});
  EXPECT_FALSE(
      toHighProducts({*any, {{{-90000, 90000}}, {{-128, 127}}}, {}, -128, 127}).hasValue());
}

TEST(ShortProducts, PowersOfTwoWithTheirTies) {
  const auto fixed = toFixedPoint({PerChannel{0.5}, PerChannel{0.125}});
  const ScaledSum sum{*fixed, {{{-128, 127}}, {{-255, 0}}}, {}, -128, 127};
  const auto p = toShortProducts(sum);
  ASSERT_TRUE(p);
  eachValue(sum, 0, [&](llvm::ArrayRef<int64_t> n) {
    ASSERT_EQ(byShortProducts(sum, *p, n, 0), rescaled(sum, n, 0));
  });
}

TEST(ShortProducts, NotForLongMultipliers) {
  const auto fixed = toFixedPoint({PerChannel{0.3}, PerChannel{0.125}});
  EXPECT_FALSE(toShortProducts({*fixed, {{{-128, 127}}, {{-128, 127}}}, {}, -128, 127}).hasValue());
}

} // namespace
} // namespace tenon
