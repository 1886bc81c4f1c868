// Tests extents: normalisation keeps values, bounds hold, printing is unambiguous.
#include "Support.h"

#include "ir/SumBounds.h"

#include "llvm/Support/raw_ostream.h"

#include <map>

namespace tenon::test {
namespace {

/// An expression tree beside what it should evaluate to.
struct Expression {
  Dim dim;
  std::function<int64_t(const int64_t *)> value;
};

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Expression randomExpression(Context &c, Random &random, int depth) {
  if (depth == 0 || random.below(4) == 0) {
    if (random.below(2)) {
      const int64_t v = random.below(7);
      return {c.dim(v), [v](const int64_t *) { return v; }};
    }
    const int64_t s = random.below(3);
    return {c.symbol(s == 0   ? "A"
                     : s == 1 ? "B"
                              : "C",
                     1, 20),
            [s](const int64_t *symbols) { return symbols[s]; }};
  }
  Expression a = randomExpression(c, random, depth - 1), b = randomExpression(c, random, depth - 1);
  const int64_t k = 1 + random.below(5);
  auto with = [&](Dim d, auto f) -> Expression {
    return {d, [f, x = a.value, y = b.value](const int64_t *s) { return f(x(s), y(s)); }};
  };
  auto withConstant = [&](Dim d, auto f) -> Expression {
    return {d, [f, k, x = a.value](const int64_t *s) { return f(x(s), k); }};
  };
  switch (random.below(9)) {
  case 0: return with(a.dim + b.dim, [](int64_t x, int64_t y) { return x + y; });
  case 1: return with(a.dim - b.dim, [](int64_t x, int64_t y) { return x - y; });
  case 2: return with(a.dim * b.dim, [](int64_t x, int64_t y) { return x * y; });
  case 3: return with(min(a.dim, b.dim), [](int64_t x, int64_t y) { return std::min(x, y); });
  case 4: return with(max(a.dim, b.dim), [](int64_t x, int64_t y) { return std::max(x, y); });
  case 5: return withConstant(a.dim * k, [](int64_t x, int64_t y) { return x * y; });
  case 6: return withConstant(floorDiv(a.dim, k), floorDivide);
  case 7:
    return withConstant(ceilDiv(a.dim, k),
                        [](int64_t x, int64_t y) { return -floorDivide(-x, y); });
  default:
    return withConstant(mod(a.dim, c.dim(k)),
                        [](int64_t x, int64_t y) { return x - floorDivide(x, y) * y; });
  }
}

std::string textOf(Dim d) {
  std::string text;
  llvm::raw_string_ostream(text) << d;
  return text;
}

/// What the parser makes of the text of `d`: the constructors from the inside out.
Dim parsed(Context &c, const DimNode *n) {
  switch (n->kind) {
  case DimKind::Constant: return c.dim(n->value);
  case DimKind::Symbol: return c.symbol(n->symbol, n->lower, n->upper);
  default: break;
  }
  const Dim a = parsed(c, n->lhs), b = parsed(c, n->rhs);
  switch (n->kind) {
  case DimKind::Add: return a + b;
  case DimKind::Mul: return a * b;
  case DimKind::FloorDiv: return floorDiv(a, b);
  case DimKind::Min: return min(a, b);
  case DimKind::Max: return max(a, b);
  default: return Dim();
  }
}

/// The text names one extent, with the same bounds, wherever it is read.
void expectRoundTrip(Dim d) {
  ASSERT_EQ(parsed(*d.node()->context, d.node()), d) << textOf(d);
  Context fresh;
  const Dim again = parsed(fresh, d.node());
  ASSERT_EQ(textOf(again), textOf(d));
  ASSERT_EQ(again.lower(), d.lower()) << textOf(d);
  ASSERT_EQ(again.upper(), d.upper()) << textOf(d);
}

TEST(Dim, NormalisationKeepsValuesAndBoundsHold) {
  Random random(1);
  for (int round = 0; round < 4000; ++round) {
    Context c;
    Expression e = randomExpression(c, random, 4);
    expectRoundTrip(e.dim);
    for (int trial = 0; trial < 8; ++trial) {
      int64_t symbols[3];
      for (int64_t &s : symbols)
        s = 1 + random.below(20);
      auto lookup = [](llvm::StringRef name, void *user) -> llvm::Optional<int64_t> {
        return static_cast<int64_t *>(user)[name[0] - 'A'];
      };
      const int64_t expected = e.value(symbols);
      const std::string text = textOf(e.dim);
      ASSERT_EQ(evaluate(e.dim, lookup, symbols).getValue(), expected) << text;
      ASSERT_LE(e.dim.lower(), expected) << text;
      ASSERT_GE(e.dim.upper(), expected) << text;
    }
  }
}

TEST(Dim, EqualExtentsAreOneNode) {
  Context c;
  Dim n = c.symbol("N", 1, 8), m = c.symbol("M", 1, 8);
  EXPECT_EQ(n + m, m + n);
  EXPECT_EQ((n + 1) * 2 - 2, n * 2);
  EXPECT_EQ((n + 3) + m, (m + 1) + n + 2);
  EXPECT_EQ(floorDiv(n * 6, 3), n * 2);
  EXPECT_EQ(floorDiv(n, n), c.dim(1));
  EXPECT_EQ(min(n, c.dim(100)), n);
  EXPECT_EQ(max(n, c.dim(0)), n);
  EXPECT_EQ(n + n, n * 2);
  EXPECT_EQ((n + m) * 2 - n, n + m + m);
  EXPECT_EQ((n + m + 1) - (m + n), c.dim(1));
  EXPECT_NE(n + m, n);
}

TEST(Dim, ConstantsDoNotOverflow) {
  Context c;
  Dim huge = c.dim(INT64_MAX);
  EXPECT_EQ(huge * 2, huge);
  EXPECT_EQ(huge + 1, huge);
  EXPECT_EQ((huge * huge).constant(), INT64_MAX);
  EXPECT_EQ(ceilDiv(c.dim(INT64_MIN + 1), 2).constant(), INT64_MIN / 2 + 1);
  EXPECT_EQ(floorDiv(c.dim(INT64_MIN), -1).constant(), INT64_MAX);
  Dim n = c.symbol("N", 1, 8);
  EXPECT_EQ(mod(n, c.dim(INT64_MAX)), n);
  EXPECT_EQ(floorDiv(n, INT64_MIN), c.dim(-1));
  EXPECT_GE(floorDiv(n * INT64_MAX + INT64_MAX, 3).upper(), INT64_MAX / 3);
}

/// Every operation on the ends of the type: nothing overflows (the sanitizers watch) and bounds
/// stay in order.
TEST(Dim, EndsOfTheTypeMeetEveryOperation) {
  const int64_t ends[] = {INT64_MIN, INT64_MIN + 1,    -(int64_t(1) << 40), -3,       -1, 0, 1,
                          3,         int64_t(1) << 40, INT64_MAX - 1,       INT64_MAX};
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    Context c;
    std::vector<Dim> dims{c.symbol("N", 1, 8), c.symbol("M", 0, INT64_MAX)};
    for (int64_t end : ends)
      dims.push_back(c.dim(end));
    for (int step = 0; step < 20; ++step) {
      const Dim a = dims[random.below(int64_t(dims.size()))];
      const Dim b = dims[random.below(int64_t(dims.size()))];
      const Dim results[] = {a + b,         a - b,     a * b,     floorDiv(a, b),
                             ceilDiv(a, b), mod(a, b), min(a, b), max(a, b)};
      dims.push_back(results[random.below(8)]);
      EXPECT_LE(dims.back().lower(), dims.back().upper()) << textOf(dims.back());
    }
  }
}

/// One extent from another: what a layer of a network does to a height.
Expression layer(const Expression &x, Random &random) {
  const int64_t kernel = 1 + random.below(5), stride = int64_t(1) << random.below(3),
                pad = random.below(3);
  auto make = [&](Dim d, auto f) -> Expression {
    return {d, [f, kernel, stride, pad, v = x.value](const int64_t *s) {
              return f(v(s), kernel, stride, pad);
            }};
  };
  switch (random.below(7)) {
  case 0: // a convolution
    return make(floorDiv(x.dim + (2 * pad - kernel), stride) + 1,
                [](int64_t h, int64_t k, int64_t s, int64_t p) {
                  return floorDivide(h + 2 * p - k, s) + 1;
                });
  case 1: // a pool that rounds up
    return make(ceilDiv(x.dim + (2 * pad - kernel), stride) + 1,
                [](int64_t h, int64_t k, int64_t s, int64_t p) {
                  return -floorDivide(-(h + 2 * p - k), s) + 1;
                });
  case 2: // SAME
    return make(ceilDiv(x.dim, stride),
                [](int64_t h, int64_t, int64_t s, int64_t) { return -floorDivide(-h, s); });
  case 3: // upsampling, a transposed convolution
    return make((x.dim - 1) * stride + kernel - pad,
                [](int64_t h, int64_t k, int64_t s, int64_t p) { return (h - 1) * s + k - p; });
  case 4: // padding to a multiple
    return make(x.dim + mod(x.dim * -1, x.dim.node()->context->dim(stride)),
                [](int64_t h, int64_t, int64_t s, int64_t) { return -floorDivide(-h, s) * s; });
  case 5: // a slice that ends within
    return make(min(x.dim * 1, x.dim + (pad - 1)),
                [](int64_t h, int64_t, int64_t, int64_t p) { return std::min(h, h + p - 1); });
  default:
    return make(floorDiv(x.dim * kernel, stride),
                [](int64_t h, int64_t k, int64_t s, int64_t) { return floorDivide(h * k, s); });
  }
}

TEST(Dim, ExtentsOfLayersThatAreEqualAreOneNode) {
  Random random(7);
  Context c;
  constexpr int64_t kLeast = 8, kMost = 200;
  std::map<std::vector<int64_t>, Dim> nodes;
  int equal = 0, apart = 0;
  for (int64_t multiple : {1, 2, 32})
    for (int round = 0; round < 4000; ++round) {
      const Dim h = c.symbol("h", kLeast, kMost);
      Expression e{h * multiple, [multiple](const int64_t *s) { return *s * multiple; }};
      for (int64_t depth = 1 + random.below(4); depth > 0; --depth)
        e = layer(e, random);
      std::vector<int64_t> values;
      for (int64_t v = kLeast; v <= kMost; ++v)
        values.push_back(e.value(&v));
      ASSERT_LE(e.dim.lower(), *std::min_element(values.begin(), values.end())) << textOf(e.dim);
      ASSERT_GE(e.dim.upper(), *std::max_element(values.begin(), values.end())) << textOf(e.dim);
      expectRoundTrip(e.dim);
      auto [known, fresh] = nodes.insert({values, e.dim});
      (known->second == e.dim ? equal : apart) += !fresh;
    }
  // Sums of several quotients may have two forms.
  EXPECT_LE(apart, 20);
  EXPECT_GT(equal, 9000);
}

TEST(Dim, QuotientsAreTakenApart) {
  Context c;
  const Dim h = c.symbol("h", 1, 64), w = c.symbol("w", 0, 31), n = c.symbol("N", 1, 8);
  const Dim zero = c.dim(0);
  EXPECT_EQ(floorDiv(h * 2 - 1, 2) + 1, h);
  EXPECT_EQ(floorDiv(h * 32 + w, 32), h);                     // by the bounds of w
  EXPECT_EQ(floorDiv(floorDiv(h * 32 - 1, 2), 2) + 1, h * 8); // two layers
  EXPECT_EQ(floorDiv(floorDiv(h + 1, 2) + 1, 2), floorDiv(h + 3, 4));
  EXPECT_EQ(ceilDiv(h, 32) * 32 - h, mod(zero - h, c.dim(32))); // padding to a multiple
  EXPECT_EQ(h - floorDiv(h, 2), floorDiv(h + 1, 2));            // the other half
  EXPECT_EQ(floorDiv(h, 2) - floorDiv(h, 4), floorDiv(h + 2, 4));
  EXPECT_EQ(mod(h * 6 + 4, c.dim(3)), c.dim(1));
  EXPECT_EQ(floorDiv(h * 6 + 3, 4), h + floorDiv(h + 1, 2));
  EXPECT_EQ(floorDiv(zero - h, 4), zero - ceilDiv(h, 4));
  EXPECT_EQ(floorDiv(n * h * 12, n * 4), h * 3);
  EXPECT_EQ(floorDiv((n + 1) * (h + 2), n + 1), h + 2);
  EXPECT_EQ(floorDiv(n * h + n - 1, n), h + floorDiv(n - 1, n));
  EXPECT_NE(floorDiv(h, 2), floorDiv(h + 1, 2));
  EXPECT_EQ(floorDiv(h - 1, 64), zero);
}

TEST(Dim, ExtremesLoseWhatBothHave) {
  Context c;
  const Dim h = c.symbol("h", 1, 64), w = c.symbol("w", 1, 64);
  EXPECT_EQ(min(h, h + 1), h);
  EXPECT_EQ(max(h * 2, h), h * 2);
  EXPECT_EQ(min(h + 3, w + 3), min(h, w) + 3);
  EXPECT_EQ(max(h * 2 + w, w * 3) - w, max(h, w) * 2);
  EXPECT_EQ(max(h - 64, c.dim(0)), c.dim(0));
  EXPECT_EQ(max(c.dim(0), h - 3).lower(), 0);
  EXPECT_EQ(max(c.dim(0), h - 3).upper(), 61);
  EXPECT_EQ((h - min(h, w)).lower(), 0);
}

TEST(Dim, BoundsAreExactWhereSymbolsMeet) {
  Context c;
  const Dim h = c.symbol("h", 1, 64), w = c.symbol("w", 1, 64);
  const Dim m = mod(h, c.dim(32)), area = (h - 1) * (w - 1);
  EXPECT_EQ(m.lower(), 0);
  EXPECT_EQ(m.upper(), 31);
  EXPECT_EQ(area.lower(), 0);
  EXPECT_EQ(area.upper(), 63 * 63);
  EXPECT_EQ((ceilDiv(h, 32) * 32).upper(), 64);
}

/// Of a window that is cut at both ends, as masks that are pasted into an image are.
Dim cutWindow(Dim from, Dim to) {
  const Dim end = max(from, to), inside = min(to, from.node()->context->dim(392));
  const Dim first = min(end + 1, max(from, from.node()->context->dim(137)));
  const Dim last = min(inside + 2, max(inside + 1, from));
  const Dim begin = end * inside + last * from + end + first;
  return max(begin, min(end * 2 + end * inside + last * from + 1, end * last + last + from)) -
         begin;
}

TEST(Dim, WhatIsInsideOfExtremesCancelsTerms) {
  Context c;
  const Dim size = cutWindow(c.symbol("a", 0, 530), c.symbol("b", 0, 530));
  EXPECT_EQ(size.lower(), 0);
  EXPECT_LE(size.upper(), 394);
}

TEST(Dim, ElementsAreNoMoreThanExtentsAllow) {
  Context c;
  const Dim h = cutWindow(c.symbol("a", 0, 530), c.symbol("b", 0, 530)),
            w = cutWindow(c.symbol("c", 0, 530), c.symbol("d", 0, 530));
  const Type image = Type::tensor(c, Element::F32, {h, w});
  EXPECT_LE(image.upperElements(), h.upper() * w.upper());
}

TEST(Dim, SumsOfTwoSymbolsHaveBoundsOfTheirOwn) {
  Context c;
  const Dim past = c.symbol("past", 0, 63), count = c.symbol("count", 1, 16);
  boundSum(past, count, 64);
  EXPECT_EQ(upperOfSum(count, past), 64);
  EXPECT_EQ((past + count).upper(), 64);
  EXPECT_EQ((past + count + 3).upper(), 67);
  EXPECT_EQ((past * 128 + count * 128).upper(), 64 * 128);
  EXPECT_EQ((past * 3 + count * 2).upper(), 2 * 64 + 63);
  EXPECT_EQ((c.dim(64) - past - count).lower(), 0);
  EXPECT_EQ(min(past + count, c.dim(64)), past + count);
  EXPECT_EQ(max(past + count, c.dim(64)).asConstant(), int64_t(64));
  EXPECT_EQ((past + count + c.symbol("more", 0, 5)).upper(), 69);
  const std::vector<SumBound> sums = sumsOf({past, count});
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].upper, 64);
}

TEST(Dim, SumsThatNothingIsKnownOfHaveTheBoundsOfBoth) {
  Context c;
  const Dim past = c.symbol("past", 0, 63), count = c.symbol("count", 1, 16);
  boundSum(past, c.symbol("other", 1, 16), 64);
  EXPECT_EQ((past + count).upper(), 79);
  EXPECT_EQ((past - count).upper(), 62);
  EXPECT_NE(min(past + count, c.dim(64)), past + count);
  EXPECT_TRUE(sumsOf({past, count}).empty());
  // One below what is cut off.
  boundSum(past, count, 65);
  EXPECT_NE(min(past + count, c.dim(64)), past + count);
}

TEST(Dim, UnknownSymbolHasNoValue) {
  Context c;
  auto lookup = [](llvm::StringRef, void *) -> llvm::Optional<int64_t> { return llvm::None; };
  EXPECT_FALSE(evaluate(c.symbol("N") + 1, lookup, nullptr).hasValue());
}

} // namespace
} // namespace tenon::test
