// Tests value inference through the chains that ONNX exporters write to compute shapes.
#include "Support.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon::test {
namespace {

struct ShapeValues : testing::Test {
  TestGraph g;
  Dim n = g.context.symbol("N", 1, 8), h = g.context.symbol("H", 1, 512);
  Value *x = g.input(Element::F32, {n, g.dim(3), h, g.dim(20)});
  Value *shape = g.b.value(Op::ShapeOf, {x});

  std::string known(Value *v) {
    auto dims = inferValue(v);
    if (!dims)
      return "unknown";
    std::string s;
    llvm::raw_string_ostream os(s);
    for (Dim d : *dims)
      os << d << ' ';
    return os.str();
  }
  Value *ints(llvm::ArrayRef<int64_t> list) { return g.constant(Tensor::fromInts(list)); }
  Value *gather(Value *v, int64_t i) {
    return g.b.value(Op::Gather, {v, ints({i})}, {{"axis", 0}});
  }
};

TEST_F(ShapeValues, GatherConcatReshape) {
  EXPECT_EQ(known(shape), "N 3 H 20 ");
  Value *target =
      g.b.value(Op::Concat, {gather(shape, 0), ints({-1}), gather(shape, -2)}, {{"axis", 0}});
  EXPECT_EQ(known(target), "N -1 H ");
  EXPECT_EQ(known(g.b.reshape(target, {g.dim(1), g.dim(3)})), "N -1 H ");
}

TEST_F(ShapeValues, Arithmetic) {
  Value *hw = g.b.value(Op::Slice, {shape},
                        {{"starts", g.dims({2})}, {"sizes", g.dims({2})}, {"steps", Ints{1}}});
  EXPECT_EQ(known(g.b.pointwise(Op::Mul, {hw, ints({2})})), "(H * 2) 40 ");
  EXPECT_EQ(known(g.b.pointwise(Op::Div, {hw, ints({2})})), "floordiv(H, 2) 10 ");
  EXPECT_EQ(known(g.b.pointwise(Op::Sub, {hw, ints({1})})), "(H + -1) 19 ");
  Value *product = g.b.reduce(Op::Mul, hw, {0}, 1);
  EXPECT_EQ(known(product), "(H * 20) ");
  // Through float and back: Resize's sizes are often computed so.
  Value *scaled = g.b.pointwise(
      Op::Mul, {g.b.cast(hw, Element::F32), g.constant(Tensor::scalar(Element::F32, 2))});
  EXPECT_EQ(known(g.b.cast(g.b.pointwise(Op::Floor, {scaled}), Element::I64)), "(H * 2) 40 ");
}

TEST_F(ShapeValues, PowersAreProducts) {
  Value *h1 = gather(shape, 2);
  EXPECT_EQ(known(g.b.pointwise(Op::Pow, {h1, ints({2})})), "(H * H) ");
  EXPECT_EQ(known(g.b.pointwise(Op::Pow, {h1, ints({0})})), "1 ");
  EXPECT_EQ(known(g.b.pointwise(Op::Pow, {h1, ints({-1})})), "unknown");
  EXPECT_EQ(known(g.b.pointwise(Op::Pow, {ints({2}), h1})), "unknown");
}

TEST_F(ShapeValues, ReplacedElements) {
  Value *rows = gather(shape, 2);
  EXPECT_EQ(known(g.b.value(Op::Scatter, {shape, ints({3}), rows})), "N 3 H H ");
  EXPECT_EQ(known(g.b.value(Op::Scatter, {shape, rows, rows})), "unknown"); // H decides which
  EXPECT_EQ(known(g.b.value(Op::Scatter, {shape, ints({3}), rows}, {{"combiner", Word{"add"}}})),
            "unknown");
}

TEST_F(ShapeValues, SelectOnWhatIsKnown) {
  Value *minusOne = ints({-1});
  Value *target = ints({-1, 3, 4, 20});
  Value *same = g.b.pointwise(Op::Equal, {target, minusOne});
  EXPECT_EQ(known(g.b.pointwise(Op::Select, {same, shape, target})), "N 3 4 20 ");
  // N against 3 is not decided.
  EXPECT_EQ(known(g.b.pointwise(Op::Equal, {shape, ints({3})})), "unknown");
}

TEST_F(ShapeValues, ConstantsOfAnyKindAreEvaluated) {
  Value *c = g.constant(tensor(Element::F32, {2}, {2.5, -1.5}));
  EXPECT_EQ(known(g.b.cast(g.b.pointwise(Op::Floor, {c}), Element::I64)), "2 -2 ");
  EXPECT_EQ(known(c), "unknown"); // not an integer tensor
}

TEST_F(ShapeValues, DataIsUnknown) {
  EXPECT_EQ(known(g.b.cast(x, Element::I64)), "unknown");
  EXPECT_EQ(known(g.input(Element::I64, {2})), "unknown");
}

TEST_F(ShapeValues, SharedOperandsDoNotExplode) {
  Value *v = gather(shape, 2);
  for (int i = 0; i < 60; ++i)
    v = g.b.pointwise(Op::Add, {v, v});
  known(v); // must return: 2^60 paths lead to H
  Value *w = ints({1});
  for (int i = 0; i < 150; ++i)
    w = g.b.pointwise(Op::Max, {w, w});
  EXPECT_EQ(known(w), "1 ");
}

TEST_F(ShapeValues, DeepChainsEnd) {
  Value *v = ints({0});
  for (int i = 0; i < 20000; ++i)
    v = g.b.pointwise(Op::Add, {v, ints({1})});
  EXPECT_EQ(known(v), "unknown");
}

} // namespace
} // namespace tenon::test
