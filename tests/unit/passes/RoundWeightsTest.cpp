// Tests the rounding of weights that keeps sums: every weight goes to one of its two neighbours,
// rows add up to what they were, and outputs of rectified inputs come closer.
#include "passes/RoundWeights.h"

#include "ir/Builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tenon {
namespace {

Tensor randomWeights(llvm::ArrayRef<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor w(Element::F32, shape);
  for (int64_t i = 0; i < w.size(); ++i)
    w.set(i, (double(random() % 200001) - 100000) / 1e6);
  return w;
}

Tensor nearest(const Tensor &w, Element e) {
  Tensor r(e, w.shape());
  for (int64_t i = 0; i < w.size(); ++i)
    r.set(i, w.at(i));
  return r;
}

/// The sum of the errors of a row, and of their squares.
struct RowError {
  double sum = 0, squares = 0;
};
RowError errorOf(const Tensor &w, const Tensor &r, const WeightRows &rows, int64_t i, int64_t j) {
  RowError e;
  for (int64_t k = 0; k < rows.length; ++k) {
    const int64_t at = i * rows.outerStride + j + k * rows.stride;
    const double d = r.at(at) - w.at(at);
    e.sum += d;
    e.squares += d * d;
  }
  return e;
}

struct Case {
  const char *name;
  Element element;
  llvm::SmallVector<int64_t, 3> shape;
  WeightRows rows;
};
class RoundWeights : public testing::TestWithParam<Case> {};

TEST_P(RoundWeights, NeighboursWhoseErrorsCancel) {
  const Case &c = GetParam();
  const Tensor w = randomWeights(c.shape, 5), r = roundedInRows(w, c.element, c.rows, 0.5),
               n = nearest(w, c.element);
  int64_t moved = 0;
  for (int64_t i = 0; i < w.size(); ++i) {
    const double a = std::fabs(n.at(i) - w.at(i)), b = std::fabs(r.at(i) - w.at(i));
    moved += a != b;
    // The neighbours of a number lie a step apart; an error of a whole step is no neighbour's.
    EXPECT_LT(b, std::ldexp(std::fabs(w.at(i)) + 1e-7, c.element == Element::F16 ? -9 : -6)) << i;
    EXPECT_TRUE(a == b || (r.at(i) > w.at(i)) != (n.at(i) > w.at(i))) << i;
  }
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, w.size() / 4);
  double before = 0, after = 0;
  for (int64_t i = 0; i < c.rows.outers; ++i)
    for (int64_t j = 0; j < c.rows.inners; ++j) {
      const RowError a = errorOf(w, n, c.rows, i, j), b = errorOf(w, r, c.rows, i, j);
      EXPECT_LE(0.5 * b.sum * b.sum + b.squares, 0.5 * a.sum * a.sum + a.squares + 1e-18);
      before += a.sum * a.sum;
      after += b.sum * b.sum;
    }
  EXPECT_LT(after, before / 16);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RoundWeights,
    testing::Values(Case{"rows", Element::F16, {8, 300}, {8, 300, 1, 300, 1}},
                    Case{"bf16", Element::BF16, {8, 300}, {8, 300, 1, 300, 1}},
                    Case{"columns", Element::F16, {300, 8}, {1, 2400, 8, 300, 8}},
                    Case{"groups", Element::F16, {600, 4}, {2, 1200, 4, 300, 4}}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(RoundWeightsSums, InputsOfMeanZeroKeepTheNearest) {
  const Tensor w = randomWeights({4, 100}, 1);
  EXPECT_TRUE(
      roundedInRows(w, Element::F16, {4, 100, 1, 100, 1}, 0).sameBytes(nearest(w, Element::F16)));
}

TEST(RoundWeightsSums, InfiniteRowsKeepTheNearest) {
  Tensor w = randomWeights({2, 100}, 1);
  w.set(7, 1e6);
  const Tensor r = roundedInRows(w, Element::F16, {2, 100, 1, 100, 1}, 0.5),
               n = nearest(w, Element::F16);
  for (int64_t i = 0; i < 100; ++i)
    EXPECT_EQ(r.at(i), n.at(i));
  EXPECT_FALSE(r.sameBytes(n));
}

TEST(RoundWeightsSums, RowsOfContractions) {
  auto rows = [](Op kind, llvm::ArrayRef<int64_t> shape, NamedAttributes attributes) {
    Operation *op = Operation::create(kind, {}, std::move(attributes), {});
    const WeightRows r = weightRows(*op, shape);
    op->erase();
    return std::vector<int64_t>{r.outers, r.outerStride, r.inners, r.length, r.stride};
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(rows(Op::Conv, {8, 4, 3, 3}, {}), (List{8, 36, 1, 36, 1}));
  EXPECT_EQ(rows(Op::MatMul, {5, 7}, {}), (List{1, 35, 7, 5, 7}));
  EXPECT_EQ(rows(Op::MatMul, {2, 5, 7}, {{"trans_b", true}}), (List{10, 7, 1, 7, 1}));
  EXPECT_EQ(rows(Op::ConvTranspose, {6, 4, 2, 2}, {{"groups", int64_t(2)}}),
            (List{2, 48, 16, 3, 16}));
}

} // namespace
} // namespace tenon
