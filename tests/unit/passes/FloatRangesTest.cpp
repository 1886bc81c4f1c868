// Tests the ranges of products with constant weights against sums that go one output after the
// other: the same numbers to the last bit, on sizes that chunks and threads do not divide.
#include "passes/FloatRanges.h"

#include "ir/Builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor randomWeights(Element e, llvm::ArrayRef<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor w(e, shape);
  for (int64_t i = 0; i < w.size(); ++i)
    w.set(i, random() % 50 ? (double(random() % 2001) - 1000) / 700 : 0);
  return w;
}

struct Expected {
  Intervals ranges;
  double gain = 0;
};

/// weights(output, term) times the term's interval.
template <class Weight>
Expected sums(int64_t outputs, int64_t terms, const Weight &weight, const Intervals &x) {
  Expected e;
  for (int64_t k = 0; k < outputs; ++k) {
    Interval sum{0, 0};
    double total = 0;
    for (int64_t i = 0; i < terms; ++i) {
      const double v = weight(k, i);
      const Interval a = x[x.size() > 1 ? size_t(i) : 0];
      sum.low += v > 0 ? boundProduct(v, a.low) : boundProduct(v, a.high);
      sum.high += v > 0 ? boundProduct(v, a.high) : boundProduct(v, a.low);
      total += std::fabs(v);
    }
    e.ranges.push_back(sum);
    e.gain = std::max(e.gain, total);
  }
  return e;
}

/// `special`: weights at such places of all of them.
void check(Element element, int64_t terms, int64_t outputs, bool transposed, const Intervals &x,
           const std::map<int64_t, double> &special = {}) {
  Context c;
  Module module(c);
  Graph &g = module.addGraph("main");
  Value *in = g.body().addArgument(Type::tensor(c, element, llvm::ArrayRef<int64_t>({1, terms})));
  g.inputNames.push_back("x");
  const int64_t shape[] = {transposed ? outputs : terms, transposed ? terms : outputs};
  Tensor w = randomWeights(element, shape, unsigned(terms + outputs));
  for (auto [at, v] : special)
    w.set(at, v);
  Diagnostics diagnostics;
  Builder b(g.body(), diagnostics);
  Value *y = b.value(Op::MatMul, {in, b.constant(w)}, {{"trans_b", transposed}});
  ASSERT_TRUE(y);
  FloatRanges ranges(g, {}, Interval{-1, 1});
  ranges.set(in, x);
  const Intervals &found = ranges.of(y);
  Expected expected = sums(
      outputs, terms,
      [&](int64_t k, int64_t i) { return w.at(transposed ? k * terms + i : i * outputs + k); }, x);
  for (auto [at, v] : special)
    if (std::isnan(v)) // nothing is known of a sum with it
      expected.ranges[size_t(transposed ? at / terms : at % outputs)] = Interval();
  ASSERT_EQ(found.size(), expected.ranges.size());
  for (size_t k = 0; k < found.size(); ++k) {
    EXPECT_EQ(found[k].low, expected.ranges[k].low) << k;
    EXPECT_EQ(found[k].high, expected.ranges[k].high) << k;
  }
  EXPECT_EQ(ranges.growthOf(*y->def()).gain, expected.gain);
}

TEST(FloatRanges, SumsAreThoseOfOneOutputAfterTheOther) {
  for (Element e : {Element::F16, Element::F32})
    for (bool transposed : {false, true})
      for (auto [terms, outputs] :
           {std::pair<int64_t, int64_t>{1, 2}, {3, 65}, {130, 2050}, {2051, 67}, {700, 1000}})
        for (Interval x : {Interval{-10, 7}, Interval{0, 3}, Interval{-2, 0}, Interval{0.5, 4},
                           Interval{-kInf, kInf}, Interval{0, kInf}})
          check(e, terms, outputs, transposed, {x});
}

TEST(FloatRanges, TermsHaveIntervalsOfTheirOwn) {
  std::mt19937 random(3);
  Intervals x;
  for (int i = 0; i < 300; ++i)
    x.push_back({-double(random() % 9), double(random() % 9)});
  for (bool transposed : {false, true})
    check(Element::F16, 300, 517, transposed, x);
}

/// Weights that are infinite count as nothing where they meet 0; one that is no number is not lost.
TEST(FloatRanges, WeightsMayBeNoNumbers) {
  std::mt19937 random(6);
  Intervals each;
  for (int i = 0; i < 300; ++i)
    each.push_back(i % 3 ? Interval{0, double(random() % 9)} : Interval{0, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (bool transposed : {false, true})
    for (const Intervals &x : {each, Intervals{{0, 2}}, Intervals{{0, 0}}})
      check(Element::F16, 300, 70, transposed, x, {{1204, nan}, {0, kInf}, {9000, kInf}});
}

/// Of each channel a convolution's taps meet one interval, and groups have channels of their own.
TEST(FloatRanges, TapsHaveTheIntervalsOfTheirChannels) {
  struct Case {
    int64_t groups, channels, filters, side; // channels and filters of a group
  };
  std::mt19937 random(4);
  for (const Case &k :
       {Case{1, 5, 7, 3}, {1, 300, 3, 1}, {1, 260, 2, 3}, {3, 4, 2, 3}, {6, 1, 2, 3}}) {
    Context c;
    Module module(c);
    Graph &g = module.addGraph("main");
    const int64_t channels = k.groups * k.channels, filters = k.groups * k.filters,
                  taps = k.side * k.side;
    Value *in = g.body().addArgument(
        Type::tensor(c, Element::F32, llvm::ArrayRef<int64_t>({1, channels, 8, 8})));
    g.inputNames.push_back("x");
    Intervals x;
    for (int64_t i = 0; i < channels; ++i)
      x.push_back({-double(random() % 9), double(random() % 9)});
    x[0] = {0, kInf};
    const Tensor w = randomWeights(Element::F32, {filters, k.channels, k.side, k.side}, 7);
    Diagnostics diagnostics;
    Builder b(g.body(), diagnostics);
    Value *y = b.value(Op::Conv, {in, b.constant(w)}, {{"groups", k.groups}});
    ASSERT_TRUE(y);
    FloatRanges ranges(g, {}, Interval{-1, 1});
    ranges.set(in, x);
    const Intervals &found = ranges.of(y);
    ASSERT_EQ(int64_t(found.size()), filters);
    double gain = 0;
    for (int64_t f = 0; f < filters; ++f) {
      Intervals terms;
      for (int64_t i = 0; i < k.channels * taps; ++i)
        terms.push_back(x[size_t(f / k.filters * k.channels + i / taps)]);
      terms.push_back({0, 0}); // one interval alone would stand for all
      const auto weight = [&](int64_t, int64_t i) {
        return i < k.channels * taps ? w.at(f * k.channels * taps + i) : 0;
      };
      const Expected expected = sums(1, int64_t(terms.size()), weight, terms);
      EXPECT_EQ(found[size_t(f)].low, expected.ranges[0].low) << f;
      EXPECT_EQ(found[size_t(f)].high, expected.ranges[0].high) << f;
      gain = std::max(gain, expected.gain);
    }
    EXPECT_EQ(ranges.growthOf(*y->def()).gain, gain);
  }
}

/// A large constant by channel, side by side or in runs, and as a whole.
TEST(FloatRanges, ConstantsAreReadInParts) {
  for (auto [columns, inner] :
       {std::pair<int64_t, int64_t>{1, 2}, {7, 2}, {1000, 2}, {1000, 1}, {3, 5000}}) {
    Context c;
    Module module(c);
    Graph &g = module.addGraph("main");
    Diagnostics diagnostics;
    Builder b(g.body(), diagnostics);
    const int64_t rows = 1'400'000 / columns / inner;
    Tensor t = randomWeights(Element::F16, {rows, columns, inner}, 5);
    const int64_t odd = t.size() / 3, oddChannel = odd / inner % columns;
    t.set(odd, std::numeric_limits<double>::quiet_NaN());
    const Intervals found = FloatRanges(g, {}, Interval()).of(b.constant(t));
    Intervals expected(size_t(columns), Interval{kInf, -kInf});
    for (int64_t i = 0; i < t.size(); ++i) {
      Interval &r = expected[size_t(i / inner % columns)];
      if (i != odd)
        r = hull(r, {t.at(i), t.at(i)});
    }
    expected[size_t(oddChannel)] = Interval();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
      EXPECT_EQ(found[k].low, expected[k].low);
      EXPECT_EQ(found[k].high, expected[k].high);
    }
  }
}

} // namespace
} // namespace tenon
