// Tests attention against the operations that it stands for.
#include "Support.h"

#include <limits>

namespace tenon::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The same by matmul, maps and softmax.
Tensor decomposed(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor *bias,
                  double scale) {
  TestGraph g;
  Value *s = g.b.value(Op::MatMul, {g.constant(q), g.constant(k)}, {{"trans_b", true}});
  s = g.b.pointwise(Op::Mul, {s, g.b.scalarConstant(q.element(), scale)});
  if (bias)
    s = g.b.pointwise(Op::Add, {s, g.constant(*bias)});
  s = g.b.value(Op::Softmax, {s}, {{"axis", int64_t(s->type().rank()) - 1}});
  g.finish({g.b.value(Op::MatMul, {s, g.constant(v)})});
  return g.run({})[0];
}

Tensor attention(llvm::ArrayRef<Tensor> operands, double scale, bool zeroUndefined = false) {
  return evaluateOp(Op::Attention, operands, [&](TestGraph &) {
    return NamedAttributes{{"scale", scale}, {"zero_undefined", zeroUndefined}};
  })[0];
}

TEST(Attention, IsProductsAndASoftmax) {
  struct Case {
    Shape q, k, v, bias;
  };
  const Case cases[] = {
      {{7, 5}, {9, 5}, {9, 4}, {}},
      {{2, 3, 7, 5}, {2, 3, 101, 5}, {2, 3, 101, 4}, {7, 101}},
      {{2, 3, 7, 5}, {3, 9, 5}, {2, 1, 9, 4}, {2, 1, 1, 9}},
      {{3, 1, 1}, {1, 6, 1}, {3, 6, 100}, {3, 1, 1}},
  };
  for (const Case &c : cases) {
    Tensor q = randomTensor(Element::F32, c.q, 1), k = randomTensor(Element::F32, c.k, 2);
    Tensor v = randomTensor(Element::F32, c.v, 3), bias = randomTensor(Element::F32, c.bias, 4);
    std::vector<Tensor> operands{q, k, v};
    if (!c.bias.empty())
      operands.push_back(bias);
    const Tensor y = attention(operands, 1.7);
    const Tensor want = decomposed(q, k, v, c.bias.empty() ? nullptr : &bias, 1.7);
    ASSERT_EQ(shapeOf(y), shapeOf(want));
    expectNear(y, values(want), 1e-6);
  }
}

TEST(Attention, CausalIsABiasThatHidesLaterKeys) {
  for (int64_t causal : {0, 2, 6}) {
    Tensor q = randomTensor(Element::F32, {2, 5, 3}, 1),
           k = randomTensor(Element::F32, {2, 7, 3}, 2);
    Tensor v = randomTensor(Element::F32, {2, 7, 4}, 3),
           bias = randomTensor(Element::F32, {5, 7}, 4);
    std::vector<double> both = values(bias);
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = i + causal + 1; j < 7; ++j)
        both[size_t(i * 7 + j)] = -kInf;
    const Tensor y = evaluateOp(Op::Attention, {q, k, v, bias}, [&](TestGraph &) {
      return NamedAttributes{{"scale", 0.5}, {"causal", causal}};
    })[0];
    expectNear(y, values(attention({q, k, v, tensor(Element::F32, {5, 7}, both)}, 0.5)), 1e-6);
  }
}

TEST(Attention, PartsAreABiasByCoordinatesOfKeys) {
  Tensor q = randomTensor(Element::F32, {2, 5, 3}, 1),
         k = randomTensor(Element::F32, {2, 12, 3}, 2);
  Tensor v = randomTensor(Element::F32, {2, 12, 4}, 3);
  Tensor a = randomTensor(Element::F32, {2, 5, 2}, 4), b = randomTensor(Element::F32, {5, 3}, 5),
         c = randomTensor(Element::F32, {2, 1, 2}, 6);
  const std::vector<double> as = values(a), bs = values(b), cs = values(c);
  std::vector<double> sums;
  for (size_t batch : {0, 1})
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 12; ++j)
        sums.push_back(as[(batch * 5 + i) * 2 + j / 6] + bs[i * 3 + j / 2 % 3] +
                       cs[batch * 2 + j % 2]);
  const Tensor y = evaluateOp(Op::Attention, {q, k, v, a, b, c}, [&](TestGraph &) {
    return NamedAttributes{{"scale", 0.5}, {"factors", Ints{2, 3, 2}}};
  })[0];
  expectNear(y, values(attention({q, k, v, tensor(Element::F32, {2, 5, 12}, sums)}, 0.5)), 1e-6);
}

TEST(Attention, PositionsHideKeysAndScoresHaveABound) {
  Tensor q = randomTensor(Element::F32, {2, 3, 4}, 1), k = randomTensor(Element::F32, {2, 9, 4}, 2);
  Tensor v = randomTensor(Element::F32, {2, 9, 4}, 3);
  const Tensor first = tensor(Element::I64, {2}, {1, 5});
  std::vector<double> hides;
  for (int64_t batch : {0, 1})
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 9; ++j) {
        const int64_t p = (batch == 0 ? 1 : 5) + i;
        hides.push_back(j > p || j <= p - 4 ? -kInf : 0);
      }
  const Tensor bias = tensor(Element::F32, {2, 3, 9}, hides);
  auto evaluated = [](llvm::ArrayRef<Tensor> operands, NamedAttributes attributes) {
    return evaluateOp(Op::Attention, operands, [&](TestGraph &) { return attributes; })[0];
  };
  const Tensor y =
      evaluated({q, k, v, first}, {{"scale", 0.5}, {"causal", int64_t(0)}, {"window", int64_t(4)}});
  expectNear(y, values(attention({q, k, v, bias}, 0.5)), 1e-6);
  // A bound so high that it bounds nothing, and one that changes the result.
  const NamedAttributes high{{"scale", 0.5}, {"softcap", 1e6}},
      low{{"scale", 0.5}, {"softcap", 0.5}};
  expectNear(evaluated({q, k, v}, high), values(attention({q, k, v}, 0.5)), 1e-6);
  TestGraph g;
  Value *s = g.b.value(Op::MatMul, {g.constant(q), g.constant(k)}, {{"trans_b", true}});
  s = g.b.pointwise(Op::Tanh, {s}); // 0.5 · tanh(0.5 · s / 0.5)
  s = g.b.pointwise(Op::Mul, {s, g.b.scalarConstant(Element::F32, 0.5)});
  s = g.b.value(Op::Softmax, {s}, {{"axis", int64_t(2)}});
  g.finish({g.b.value(Op::MatMul, {s, g.constant(v)})});
  expectNear(evaluated({q, k, v}, low), values(g.run({})[0]), 1e-6);
}

TEST(Attention, HiddenKeysAndQueriesThatSeeNone) {
  Tensor q = randomTensor(Element::F32, {3, 4}, 1), k = randomTensor(Element::F32, {2, 4}, 2);
  Tensor v = tensor(Element::F32, {2, 1}, {5, 7});
  Tensor bias = tensor(Element::F32, {3, 2}, {-kInf, 0, 0, -kInf, -kInf, -kInf});
  Tensor y = attention({q, k, v, bias}, 1);
  EXPECT_EQ(y.at(0), 7);
  EXPECT_EQ(y.at(1), 5);
  EXPECT_TRUE(std::isnan(y.at(2)));
  EXPECT_TRUE(std::isnan(decomposed(q, k, v, &bias, 1).at(2)));
  expectNear(attention({q, k, v, bias}, 1, true), {7, 5, 0}, 0);
}

TEST(Attention, ScoresOfNarrowTypesAreWide) {
  // Products of 2^18 are beyond f16.
  Tensor q = tensor(Element::F16, {1, 1}, {512}), k = tensor(Element::F16, {2, 1}, {512, 512});
  expectNear(attention({q, k, tensor(Element::F16, {2, 1}, {1, 4})}, 1), {2.5}, 0);
}

TEST(Attention, NoKeysAtAll) {
  Tensor q = randomTensor(Element::F32, {2, 3}, 1);
  expectNear(attention({q, Tensor(Element::F32, {0, 3}), Tensor(Element::F32, {0, 2})}, 1),
             {0, 0, 0, 0}, 0);
}

} // namespace
} // namespace tenon::test
