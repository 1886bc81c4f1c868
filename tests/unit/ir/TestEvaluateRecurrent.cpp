// Tests of recurrent: inference, wrong input, and evaluation against steps written out.
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

/// h = tanh(x + R h) over [steps, 1, 2], from the last step to the first where `reverse`.
Operation *tanhLayer(TestGraph &g, llvm::ArrayRef<Value *> operands, NamedAttributes attributes) {
  return g.b.create(Op::Recurrent, operands, std::move(attributes), 1, [&](unsigned, Region &body) {
    const Type t = Type::scalar(g.context, Element::F32);
    Value *x = body.addArgument(t), *gate = body.addArgument(t);
    body.addArgument(t); // the state
    Builder b(body, g.diagnostics);
    b.yield({b.scalar(Op::Tanh, {b.scalar(Op::Add, {x, gate})})});
  });
}
const NamedAttributes kOne = {{"states", 1}, {"kept", Ints{0}}};

} // namespace

TEST(Recurrent, StepsFollowOneAnother) {
  for (const bool reverse : {false, true}) {
    TestGraph g;
    Value *x = g.input(Element::F32, {3, 1, 2}), *w = g.input(Element::F32, {2, 2}),
          *h = g.input(Element::F32, {1, 2});
    NamedAttributes attributes = kOne;
    attributes.insert_or_assign("reverse", reverse);
    Operation *layer = tanhLayer(g, {x, w, h}, attributes);
    ASSERT_TRUE(layer) << g.messages();
    EXPECT_EQ(toString(layer->result()->type()), "tensor<3x1x2xf32>");
    g.finish(layer->results());
    const std::vector<double> in = {0.5, -0.25, 0.125, 1, -1, 0.75}, r = {0.5, -1, 0.25, 2};
    double a = 0.25, b = -0.5;
    std::vector<double> want(6);
    for (int step = 0; step < 3; ++step) {
      const int t = reverse ? 2 - step : step;
      const double next = std::tanh(in[size_t(2 * t)] + r[0] * a + r[1] * b);
      b = double(float(std::tanh(in[size_t(2 * t + 1)] + r[2] * a + r[3] * b)));
      a = double(float(next));
      want[size_t(2 * t)] = a;
      want[size_t(2 * t + 1)] = b;
    }
    const auto out = g.run({tensor(Element::F32, {3, 1, 2}, in), tensor(Element::F32, {2, 2}, r),
                            tensor(Element::F32, {1, 2}, {0.25, -0.5})});
    const std::vector<double> found = values(out[0]);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(found[i], want[i], 1e-6) << i;
  }
}

TEST(Recurrent, Rejects) {
  TestGraph g;
  Value *x = g.input(Element::F32, {3, 1, 2}), *w = g.input(Element::F32, {2, 2}),
        *h = g.input(Element::F32, {1, 2}), *odd = g.input(Element::F32, {3, 2}),
        *half = g.input(Element::F16, {1, 2});
  const auto reject = [&](llvm::ArrayRef<Value *> operands, NamedAttributes attributes) {
    g.diagnostics.clear();
    EXPECT_FALSE(tanhLayer(g, operands, std::move(attributes)));
    return g.messages();
  };
  EXPECT_CONTAINS(reject({x, odd, h}, kOne), "expected a row for each unit of each gate");
  EXPECT_CONTAINS(reject({x, w, half}, kOne), "expected elements f32 and extents [1, 2]");
  EXPECT_CONTAINS(reject({x, w, h}, {{"states", 2}, {"kept", Ints{0}}}), "attribute states");
  EXPECT_CONTAINS(reject({x, w, h}, {{"states", 1}, {"kept", Ints{1}}}), "attribute kept");
  EXPECT_CONTAINS(reject({g.input(Element::F32, {3, 1, 3}), w, h}, kOne), "operand 0");
  // Two gates where the region takes one.
  EXPECT_CONTAINS(reject({x, g.input(Element::F32, {4, 2}), h}, kOne), "region 0: expected 4");
}
