// Tests movement ops by their element formulas, for several widths of elements.
#include "Support.h"

namespace tenon::test {
namespace {

Tensor iota(Element e, Shape shape) {
  Tensor t(e, shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.setInt(i, i % 8); // fits every type of the tests
  return t;
}
const Element kElements[] = {Element::F32,  Element::F16, Element::F64, Element::I64,   Element::U8,
                             Element::Bool, Element::I4,  Element::U4,  Element::F4E2M1};

TEST(Movement, TransposeOfAnyElement) {
  for (Element e : kElements) {
    Tensor x = iota(e, {2, 3, 4});
    Tensor r = evaluateOp(Op::Transpose, {x}, [](TestGraph &) {
      return NamedAttributes{{"perm", Ints{2, 0, 1}}};
    })[0];
    ASSERT_EQ(shapeOf(r), (Shape{4, 2, 3}));
    for (int64_t a = 0; a < 4; ++a)
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(r.at((a * 2 + b) * 3 + c), x.at((b * 3 + c) * 4 + a)) << name(e).str();
  }
}

TEST(Movement, SliceWithSteps) {
  for (Element e : kElements) {
    Tensor x = iota(e, {3, 7});
    Tensor r = evaluateOp(Op::Slice, {x}, [](TestGraph &g) {
      return NamedAttributes{
          {"starts", g.dims({2, 5})}, {"sizes", g.dims({2, 3})}, {"steps", Ints{-2, -1}}};
    })[0];
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        EXPECT_EQ(r.at(i * 3 + j), x.at((2 - 2 * i) * 7 + 5 - j)) << name(e).str();
  }
  Tensor none = evaluateOp(Op::Slice, {iota(Element::F32, {3})}, [](TestGraph &g) {
    return NamedAttributes{{"starts", g.dims({3})}, {"sizes", g.dims({0})}, {"steps", Ints{1}}};
  })[0];
  EXPECT_EQ(shapeOf(none), (Shape{0}));
}

std::vector<double> padded(const char *mode, int64_t low, int64_t high) {
  Tensor x = tensor(Element::F32, {3}, {1, 2, 3});
  return values(evaluateOp(Op::Pad, {x}, [&](TestGraph &g) {
    return NamedAttributes{{"low", g.dims({low})}, {"high", g.dims({high})}, {"mode", Word{mode}}};
  })[0]);
}

TEST(Movement, PadModes) {
  EXPECT_EQ(padded("constant", 2, 1), (std::vector<double>{0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(padded("edge", 2, 1), (std::vector<double>{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(padded("reflect", 2, 2), (std::vector<double>{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(padded("reflect", 5, 0),
            (std::vector<double>{2, 1, 2, 3, 2, 1, 2, 3})); // more than once
  EXPECT_EQ(padded("wrap", 2, 4), (std::vector<double>{2, 3, 1, 2, 3, 1, 2, 3, 1}));
  Tensor r =
      evaluateOp(Op::Pad, {tensor(Element::I4, {1, 1}, {3}), Tensor::scalar(Element::I4, -2)},
                 [](TestGraph &g) {
                   return NamedAttributes{{"low", g.dims({0, 1})}, {"high", g.dims({1, 0})}};
                 })[0];
  EXPECT_EQ(values(r), (std::vector<double>{-2, 3, -2, -2}));
}

TEST(Movement, ConcatOfAnyElement) {
  for (Element e : kElements) {
    Tensor a = iota(e, {2, 1, 3}), b = iota(e, {2, 2, 3});
    Tensor r = evaluateOp(Op::Concat, {a, b}, [](TestGraph &) {
      return NamedAttributes{{"axis", 1}};
    })[0];
    ASSERT_EQ(shapeOf(r), (Shape{2, 3, 3}));
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < 3; ++k)
          EXPECT_EQ(r.at((i * 3 + j) * 3 + k),
                    j == 0 ? a.at(i * 3 + k) : b.at((i * 2 + j - 1) * 3 + k))
              << name(e).str();
  }
}

TEST(Movement, GatherWrapsNegativeIndices) {
  for (Element e : kElements) {
    Tensor x = iota(e, {2, 3, 2}), indices = tensor(Element::I32, {2, 2}, {0, -1, 2, 1});
    Tensor r = evaluateOp(Op::Gather, {x, indices}, [](TestGraph &) {
      return NamedAttributes{{"axis", 1}};
    })[0];
    ASSERT_EQ(shapeOf(r), (Shape{2, 2, 2, 2}));
    const int64_t at[] = {0, 2, 2, 1};
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t k = 0; k < 2; ++k)
          EXPECT_EQ(r.at((i * 4 + j) * 2 + k), x.at((i * 3 + at[j]) * 2 + k)) << name(e).str();
  }
}

TEST(Movement, GatherReportsIndicesOutOfRange) {
  TestGraph g;
  Value *v = g.b.value(Op::Gather,
                       {g.constant(iota(Element::F32, {3})), g.constant(Tensor::fromInts({3}))},
                       {{"axis", 0}});
  g.finish({v});
  std::vector<Tensor> outputs;
  EXPECT_FALSE(interpret(g.graph, {}, outputs, g.diagnostics));
  EXPECT_NE(g.messages().find("index 3 is out of range for extent 3"), std::string::npos);
}

std::vector<double> scattered(const char *combiner) {
  Tensor x = tensor(Element::F32, {3, 2}, {1, 2, 3, 4, 5, 6});
  Tensor updates = tensor(Element::F32, {3, 2}, {10, 20, 2, 0.5, -1, 7});
  return values(
      evaluateOp(Op::Scatter, {x, Tensor::fromInts({2, 0, 2}), updates}, [&](TestGraph &) {
        return NamedAttributes{{"combiner", Word{combiner}}};
      })[0]);
}

TEST(Movement, ScatterInOrder) {
  EXPECT_EQ(scattered("none"), (std::vector<double>{2, 0.5, 3, 4, -1, 7}));
  EXPECT_EQ(scattered("add"), (std::vector<double>{3, 2.5, 3, 4, 14, 33}));
  EXPECT_EQ(scattered("mul"), (std::vector<double>{2, 1, 3, 4, -50, 840}));
  EXPECT_EQ(scattered("min"), (std::vector<double>{1, 0.5, 3, 4, -1, 6}));
  EXPECT_EQ(scattered("max"), (std::vector<double>{2, 2, 3, 4, 10, 20}));
  Tensor wrapped = evaluateOp(
      Op::Scatter,
      {tensor(Element::I8, {1}, {100}), Tensor::fromInts({0}), tensor(Element::I8, {1}, {100})},
      [](TestGraph &) {
        return NamedAttributes{{"combiner", Word{"add"}}};
      })[0];
  EXPECT_EQ(values(wrapped), (std::vector<double>{-56}));
}

TEST(Movement, ScatterReportsWhatDoesNotFit) {
  TestGraph g;
  Value *x = g.constant(iota(Element::F32, {3, 2}));
  Value *v = g.b.value(
      Op::Scatter, {x, g.constant(Tensor::fromInts({3})), g.constant(iota(Element::F32, {1, 2}))});
  g.finish({v});
  std::vector<Tensor> outputs;
  EXPECT_FALSE(interpret(g.graph, {}, outputs, g.diagnostics));
  EXPECT_NE(g.messages().find("index 3 is out of range for extent 3"), std::string::npos);
  EXPECT_EQ(g.b.value(Op::Scatter, {x, g.constant(Tensor::fromInts({0})),
                                    g.constant(iota(Element::F32, {2, 2}))}),
            nullptr);
  EXPECT_NE(g.messages().find("updates: expected tensor<1x2xf32>"), std::string::npos);
}

TEST(Movement, BitcastKeepsBits) {
  auto bits = [](const Tensor &x, Element to) {
    return evaluateOp(Op::Bitcast, {x}, [&](TestGraph &g) {
      return NamedAttributes{{"to", Type::scalar(g.context, to)}};
    })[0];
  };
  EXPECT_EQ(values(bits(tensor(Element::F32, {2}, {1, -0.0}), Element::I32)),
            (std::vector<double>{1065353216, -2147483648.0}));
  EXPECT_EQ(values(bits(tensor(Element::U4, {3}, {1, 7, 15}), Element::I4)),
            (std::vector<double>{1, 7, -1}));
  EXPECT_NE(rejection(Op::Bitcast, {tensor(Element::F32, {1}, {1})},
                      [&](TestGraph &g) {
                        return NamedAttributes{{"to", Type::scalar(g.context, Element::I16)}};
                      })
                .find("expected a type as wide as f32"),
            std::string::npos);
}

TEST(Movement, Text) {
  Tensor x = Tensor::strings({3}, {"a", "b", "c"});
  Tensor r = evaluateOp(Op::Gather, {x, Tensor::fromInts({2, 0})}, [](TestGraph &) {
    return NamedAttributes{{"axis", 0}};
  })[0];
  EXPECT_EQ(r.stringValues(), (std::vector<std::string>{"c", "a"}));
}

} // namespace
} // namespace tenon::test
