// Tests extents: normalisation keeps values, bounds hold, printing is unambiguous.
#include "Support.h"

#include "llvm/Support/raw_ostream.h"

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

TEST(Dim, NormalisationKeepsValuesAndBoundsHold) {
  Random random(1);
  for (int round = 0; round < 4000; ++round) {
    Context c;
    Expression e = randomExpression(c, random, 4);
    for (int trial = 0; trial < 8; ++trial) {
      int64_t symbols[3];
      for (int64_t &s : symbols)
        s = 1 + random.below(20);
      auto lookup = [](llvm::StringRef name, void *user) -> llvm::Optional<int64_t> {
        return static_cast<int64_t *>(user)[name[0] - 'A'];
      };
      const int64_t expected = e.value(symbols);
      std::string text;
      llvm::raw_string_ostream(text) << e.dim;
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
  EXPECT_EQ(ceilDiv(c.dim(INT64_MIN), 2).constant(), INT64_MIN / 2);
  EXPECT_EQ(floorDiv(c.dim(INT64_MIN), -1).constant(), INT64_MAX);
  Dim remainder = mod(c.symbol("N", 1, 8), c.dim(INT64_MIN));
  EXPECT_EQ(remainder.lower(), INT64_MIN + 1);
  EXPECT_EQ(remainder.upper(), 0);
}

TEST(Dim, UnknownSymbolHasNoValue) {
  Context c;
  auto lookup = [](llvm::StringRef, void *) -> llvm::Optional<int64_t> { return llvm::None; };
  EXPECT_FALSE(evaluate(c.symbol("N") + 1, lookup, nullptr).hasValue());
}

} // namespace
} // namespace tenon::test
