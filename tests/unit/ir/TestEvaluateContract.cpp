// Tests contractions against loops written as their definitions, over ragged shapes.
#include "Support.h"

namespace tenon::test {
namespace {

struct ConvCase {
  Shape x, w;
  Ints strides, dilations, pads;
  int64_t groups;
};

double sum2d(const ConvCase &c, const std::vector<double> &x, const std::vector<double> &w,
             int64_t n, int64_t k, int64_t oh, int64_t ow) {
  const int64_t channels = c.w[1], perGroup = c.w[0] / c.groups;
  double sum = 0;
  for (int64_t ch = 0; ch < channels; ++ch)
    for (int64_t r = 0; r < c.w[2]; ++r)
      for (int64_t s = 0; s < c.w[3]; ++s) {
        const int64_t ih = oh * c.strides[0] + r * c.dilations[0] - c.pads[0];
        const int64_t iw = ow * c.strides[1] + s * c.dilations[1] - c.pads[1];
        if (ih < 0 || ih >= c.x[2] || iw < 0 || iw >= c.x[3])
          continue;
        const int64_t from = k / perGroup * channels + ch;
        sum += x[size_t(((n * c.x[1] + from) * c.x[2] + ih) * c.x[3] + iw)] *
               w[size_t(((k * channels + ch) * c.w[2] + r) * c.w[3] + s)];
      }
  return sum;
}

NamedAttributes convAttributes(const ConvCase &c) {
  return {
      {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"groups", c.groups}};
}

const ConvCase kConvs[] = {
    {{1, 3, 9, 11}, {7, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1},
    {{2, 4, 13, 17}, {6, 2, 3, 5}, {2, 3}, {2, 1}, {0, 3, 2, 1}, 2},
    {{1, 5, 7, 7}, {10, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 5},
    {{1, 300, 4, 5}, {13, 300, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {{1, 1, 1, 200}, {1, 1, 1, 7}, {1, 1}, {1, 5}, {0, 20, 0, 20}, 1},
    {{1, 2, 5, 5}, {3, 2, 2, 2}, {4, 4}, {1, 1}, {3, 3, 3, 3}, 1},
};

TEST(Conv, MatchesItsDefinition) {
  for (const ConvCase &c : kConvs) {
    Tensor x = randomTensor(Element::F32, c.x, 1), w = randomTensor(Element::F32, c.w, 2);
    Tensor r = evaluateOp(Op::Conv, {x, w}, [&](TestGraph &) { return convAttributes(c); })[0];
    std::vector<double> xs = values(x), ws = values(w);
    int64_t at = 0;
    for (int64_t n = 0; n < r.shape()[0]; ++n)
      for (int64_t k = 0; k < r.shape()[1]; ++k)
        for (int64_t h = 0; h < r.shape()[2]; ++h)
          for (int64_t v = 0; v < r.shape()[3]; ++v)
            ASSERT_NEAR(r.at(at++), sum2d(c, xs, ws, n, k, h, v), 1e-5);
  }
}

TEST(Conv, IntegerSumsAreExactAndPaddingIsTheZeroPoint) {
  for (const ConvCase &c : kConvs) {
    Tensor x(Element::U8, c.x), w(Element::I8, c.w), wz(Element::I8, {c.w[0]});
    Random random(3);
    for (int64_t i = 0; i < x.size(); ++i)
      x.setInt(i, random.below(256));
    for (int64_t i = 0; i < w.size(); ++i)
      w.setInt(i, random.below(256) - 128);
    for (int64_t i = 0; i < wz.size(); ++i)
      wz.setInt(i, i % 5 - 2);
    Tensor xz = Tensor::scalar(Element::U8, 131);
    Tensor r =
        evaluateOp(Op::Conv, {x, w, xz, wz}, [&](TestGraph &) { return convAttributes(c); })[0];
    ASSERT_EQ(r.element(), Element::I32);
    std::vector<double> xs = values(x), ws = values(w);
    for (double &v : xs)
      v -= 131;
    for (size_t i = 0; i < ws.size(); ++i)
      ws[i] -= wz.at(int64_t(i) / (w.size() / c.w[0]));
    int64_t at = 0;
    for (int64_t n = 0; n < r.shape()[0]; ++n)
      for (int64_t k = 0; k < r.shape()[1]; ++k)
        for (int64_t h = 0; h < r.shape()[2]; ++h)
          for (int64_t v = 0; v < r.shape()[3]; ++v)
            ASSERT_EQ(double(r.intAt(at++)), sum2d(c, xs, ws, n, k, h, v));
  }
}

TEST(Conv, OneAndThreeDimensions) {
  Tensor x = tensor(Element::F32, {1, 1, 5}, {1, 2, 3, 4, 5}),
         w = tensor(Element::F32, {1, 1, 3}, {1, 10, 100});
  auto none = [](TestGraph &) { return NamedAttributes{}; };
  EXPECT_EQ(values(evaluateOp(Op::Conv, {x, w}, none)[0]), (std::vector<double>{321, 432, 543}));
  Tensor cube = randomTensor(Element::F32, {1, 2, 3, 4, 5}, 5),
         kernel(Element::F32, {1, 2, 1, 1, 1});
  kernel.set(0, 1), kernel.set(1, -1);
  Tensor r = evaluateOp(Op::Conv, {cube, kernel}, none)[0];
  for (int64_t i = 0; i < 60; ++i)
    EXPECT_EQ(r.at(i), float(cube.at(i) - cube.at(60 + i)));
}

TEST(ConvTranspose, IsTheTransposeOfConv) {
  // <conv(x), y> = <x, conv_transpose(y)> for the same weights.
  for (const ConvCase &c : kConvs) {
    if (c.strides[0] != 1 && c.pads != Ints{0, 3, 2, 1})
      continue;
    Tensor x = randomTensor(Element::F64, c.x, 1), w = randomTensor(Element::F64, c.w, 2);
    Tensor forward =
        evaluateOp(Op::Conv, {x, w}, [&](TestGraph &) { return convAttributes(c); })[0];
    Tensor y = randomTensor(Element::F64, forward.shape(), 3);
    // The extent that strides left over comes back as output padding.
    Ints padding;
    for (size_t d = 0; d < 2; ++d)
      padding.push_back(
          (c.x[d + 2] + c.pads[d] + c.pads[d + 2] - ((c.w[d + 2] - 1) * c.dilations[d] + 1)) %
          c.strides[d]);
    Tensor back = evaluateOp(Op::ConvTranspose, {y, w}, [&](TestGraph &) {
      NamedAttributes a = convAttributes(c);
      a.insert({"output_padding", padding});
      return a;
    })[0];
    ASSERT_EQ(shapeOf(back), c.x);
    double left = 0, right = 0;
    for (int64_t i = 0; i < y.size(); ++i)
      left += forward.at(i) * y.at(i);
    for (int64_t i = 0; i < x.size(); ++i)
      right += x.at(i) * back.at(i);
    EXPECT_NEAR(left, right, 1e-9);
  }
}

TEST(MatMul, BatchesAndTransposes) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const int64_t m = 5, k = 300, n = 101;
      Tensor a = randomTensor(Element::F32, ta ? Shape{2, 1, k, m} : Shape{2, 1, m, k}, 1);
      Tensor b = randomTensor(Element::F32, tb ? Shape{3, n, k} : Shape{3, k, n}, 2);
      Tensor r = evaluateOp(Op::MatMul, {a, b}, [&](TestGraph &) {
        return NamedAttributes{{"trans_a", ta}, {"trans_b", tb}};
      })[0];
      ASSERT_EQ(shapeOf(r), (Shape{2, 3, m, n}));
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 3; ++j)
          for (int64_t y = 0; y < m; ++y)
            for (int64_t x = 0; x < n; ++x) {
              double sum = 0;
              for (int64_t p = 0; p < k; ++p)
                sum += a.at(i * m * k + (ta ? p * m + y : y * k + p)) *
                       b.at(j * k * n + (tb ? x * k + p : p * n + x));
              ASSERT_EQ(r.at(((i * 3 + j) * m + y) * n + x), double(float(sum)));
            }
    }
}

TEST(MatMul, IntegersOfAllWidths) {
  auto none = [](TestGraph &) { return NamedAttributes{}; };
  Tensor a = tensor(Element::I64, {1, 2}, {1, 2}), b = tensor(Element::I64, {2, 1}, {3, 4});
  a.setInt(0, int64_t(1) << 62);
  Tensor r = evaluateOp(Op::MatMul, {a, b}, none)[0];
  EXPECT_EQ(r.intAt(0), int64_t(uint64_t(3) << 62) + 8);
  Tensor z =
      evaluateOp(Op::MatMul,
                 {tensor(Element::U8, {1, 2}, {255, 0}), tensor(Element::U8, {2, 1}, {255, 7}),
                  Tensor::scalar(Element::U8, 5), Tensor::scalar(Element::U8, 7)},
                 none)[0];
  EXPECT_EQ(z.element(), Element::I32);
  EXPECT_EQ(z.intAt(0), 250 * 248);
}

TEST(MatMul, EmptySums) {
  Tensor r = evaluateOp(Op::MatMul, {Tensor(Element::F32, {2, 0}), Tensor(Element::F32, {0, 3})},
                        [](TestGraph &) { return NamedAttributes{}; })[0];
  EXPECT_EQ(values(r), std::vector<double>(6, 0.0));
}

} // namespace
} // namespace tenon::test
