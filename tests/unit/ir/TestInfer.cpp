// Tests type inference: symbolic extents, and a clear rejection for each kind of mistake.
#include "Support.h"

namespace tenon::test {
namespace {

struct Infer : testing::Test {
  TestGraph g;
  Dim n = g.context.symbol("N", 1, 64), h = g.context.symbol("H", 8, 512);

  std::string typeOf(Value *v) { return v ? toString(v->type()) : g.messages(); }
  std::string typeOf(Op op, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {}) {
    return typeOf(g.b.value(op, operands, std::move(attributes)));
  }
  /// Message of an op that must be rejected.
  std::string reject(Op op, llvm::ArrayRef<Value *> operands, NamedAttributes attributes = {}) {
    g.diagnostics.clear();
    EXPECT_FALSE(g.b.create(op, operands, std::move(attributes)));
    return g.messages();
  }
};

TEST_F(Infer, ConvExtentsAreExpressions) {
  Value *x = g.input(Element::F32, {n, g.dim(3), h, g.dim(11)});
  Value *w = g.input(Element::F32, {8, 3, 3, 3});
  EXPECT_EQ(typeOf(Op::Conv, {x, w}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}),
            "tensor<{N}x8x{floordiv((H + 1), 2)}x6xf32>");
  EXPECT_EQ(typeOf(Op::Conv, {x, w}, {{"pads", Ints{1, 0, 1, 0}}, {"dilations", Ints{1, 2}}}),
            "tensor<{N}x8x{H}x7xf32>");
}

TEST_F(Infer, ScanRejects) {
  Value *x = g.input(Element::F32, {n, g.dim(3)});
  Operation *sums = g.b.scan(Op::Add, x, 0, 0, false, true);
  ASSERT_TRUE(sums) << g.messages();
  EXPECT_EQ(typeOf(sums->result()), "tensor<{N}x3xf32>");
  const auto rejectBody = [&](llvm::function_ref<Value *(Builder &, Value *, Value *)> combine) {
    g.diagnostics.clear();
    EXPECT_FALSE(
        g.b.create(Op::Scan, {x}, {{"axis", 1}, {"init", 0.0}}, 1, [&](unsigned, Region &body) {
          const Type t = Type::scalar(g.context, Element::F32);
          Value *before = body.addArgument(t), *a = body.addArgument(t);
          Builder b(body, g.diagnostics);
          b.yield({combine(b, before, a)});
        }));
    return g.messages();
  };
  EXPECT_CONTAINS(rejectBody([](Builder &b, Value *before, Value *a) {
                    return b.scalar(Op::Less, {before, a});
                  }),
                  "expected a body that combines two values of type f32 into one");
  EXPECT_CONTAINS(rejectBody([&](Builder &b, Value *, Value *a) {
                    const Type whole = Type::scalar(g.context, Element::I64);
                    Value *i = b.scalar(Op::Index, {}, {{"dim", int64_t(0)}, {"to", whole}});
                    const Type real = Type::scalar(g.context, Element::F32);
                    return b.scalar(Op::Add, {a, b.scalar(Op::Cast, {i}, {{"to", real}})});
                  }),
                  "the body asks for a position");
  g.diagnostics.clear();
  EXPECT_FALSE(g.b.scan(Op::Add, x, 2, 0, false, false));
  EXPECT_CONTAINS(g.messages(), "axis");
}

TEST_F(Infer, ConvRejects) {
  Value *x = g.input(Element::F32, {1, 4, 8, 8});
  Value *w = g.input(Element::F32, {8, 4, 3, 3});
  EXPECT_CONTAINS(reject(Op::Conv, {g.input(Element::F32, {4, 8}), w}),
                  "expected rank 3 or more, found 2");
  EXPECT_CONTAINS(reject(Op::Conv, {x, g.input(Element::F32, {8, 4, 3})}),
                  "w: expected rank 4, found 3");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w}, {{"groups", 2}}), "expected 2 input channels");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w}, {{"strides", Ints{0, 1}}}), "attribute strides");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w}, {{"pads", Ints{1, 1}}}), "expected 4 integers, found 2");
  EXPECT_CONTAINS(reject(Op::Conv, {x, g.input(Element::F32, {8, 4, 9, 9})}),
                  "exceeds the padded extent");
  EXPECT_CONTAINS(reject(Op::Conv, {x, g.input(Element::F16, {8, 4, 3, 3})}), "do not multiply");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w}, {{"stride", Ints{1, 1}}}),
                  "conv has no attribute 'stride'; did you mean 'strides'?");
  EXPECT_CONTAINS(reject(Op::Conv, {x}), "expected 2 to 4 operands, found 1");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w}, {{"groups", Word{"two"}}}), "expected an integer");
}

TEST_F(Infer, IntegerContractionsGiveI32) {
  Value *x = g.input(Element::U8, {1, 4, 8, 8}), *w = g.input(Element::I8, {8, 4, 3, 3});
  Value *xz = g.input(Element::U8, llvm::ArrayRef<int64_t>{}), *wz = g.input(Element::I8, {8});
  EXPECT_EQ(typeOf(Op::Conv, {x, w, xz, wz}), "tensor<1x8x6x6xi32>");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w, wz}), "x_zero_point: expected element type u8, found i8");
  EXPECT_CONTAINS(reject(Op::Conv, {x, w, xz, g.input(Element::I8, {7})}),
                  "one per output channel");
}

TEST_F(Infer, ConvTransposeUndoesConv) {
  Value *x = g.input(Element::F32, {n, g.dim(4), h, h});
  Value *w = g.input(Element::F32, {4, 3, 4, 4});
  EXPECT_EQ(typeOf(Op::ConvTranspose, {x, w},
                   {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"groups", 2}}),
            "tensor<{N}x6x{(H * 2)}x{(H * 2)}xf32>");
}

TEST_F(Infer, MatMulBroadcastsLeadingDimensions) {
  Value *a = g.input(Element::F32, {n, g.dim(1), g.dim(4), g.dim(5)});
  Value *b = g.input(Element::F32, {3, 5, 6});
  EXPECT_EQ(typeOf(Op::MatMul, {a, b}), "tensor<{N}x3x4x6xf32>");
  EXPECT_EQ(typeOf(Op::MatMul, {b, a}, {{"trans_a", true}, {"trans_b", true}}),
            "tensor<{N}x3x6x4xf32>");
  EXPECT_CONTAINS(reject(Op::MatMul, {b, a}),
                  "inner extents differ: expected 6 rows in b, found 4");
  EXPECT_CONTAINS(reject(Op::MatMul, {a, g.input(Element::F32, {5})}), "expected rank 2 or more");
}

TEST_F(Infer, AttentionBroadcastsLeadingDimensions) {
  Value *q = g.input(Element::F16, {n, g.dim(3), h, g.dim(8)});
  Value *k = g.input(Element::F16, {3, 5, 8}), *v = g.input(Element::F16, {1, 1, 5, 6});
  const NamedAttributes scale{{"scale", 0.5}};
  EXPECT_EQ(typeOf(Op::Attention, {q, k, v}, scale), "tensor<{N}x3x{H}x6xf16>");
  Value *bias = g.input(Element::F32, {n, g.dim(1), g.dim(1), g.dim(5)});
  EXPECT_EQ(typeOf(Op::Attention, {q, k, v, bias}, scale), "tensor<{N}x3x{H}x6xf16>");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, v}), "needs attribute 'scale'");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, v}, {{"scale", INFINITY}}), "a finite number");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, v}, {{"scale", 1.0}, {"causal", int64_t(-1)}}),
                  "attribute causal: expected 0 or more, found -1");
  EXPECT_CONTAINS(reject(Op::Attention, {q, v, v}, scale), "k: expected rows of 8 elements");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, g.input(Element::F16, {4, 6})}, scale),
                  "v: expected 5 rows");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, g.input(Element::F32, {5, 6})}, scale),
                  "expected one floating-point type");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, g.input(Element::F16, {2, 5, 6})}, scale),
                  "leading dimensions do not broadcast");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, v, g.input(Element::F64, {5})}, scale),
                  "bias: expected element type f32, f16 or bf16");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, v, g.input(Element::F32, {7, 5})}, scale),
                  "bias: expected a shape that broadcasts to the scores [N, 3, H, 5]");
}

TEST_F(Infer, AttentionHasPartsForFactorsOfTheKeys) {
  Value *q = g.input(Element::F16, {2, 7, 8}), *k = g.input(Element::F16, {2, 6, 8});
  Value *rows = g.input(Element::F16, {2, 7, 3}), *columns = g.input(Element::F32, {1, 7, 2});
  const NamedAttributes factors{{"scale", 0.5}, {"factors", Ints{3, 2}}};
  EXPECT_EQ(typeOf(Op::Attention, {q, k, k, rows, columns}, factors), "tensor<2x7x8xf16>");
  Value *mask = g.input(Element::F32, {6}), *first = g.input(Element::I64, {2});
  EXPECT_EQ(typeOf(Op::Attention, {q, k, k, mask, rows, columns, first}, factors),
            "tensor<2x7x8xf16>");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, k, rows}, factors),
                  "one part for each of 2 factors");
  EXPECT_CONTAINS(reject(Op::Attention, {q, k, k, columns, rows}, factors),
                  "part 0: expected a shape that broadcasts to the scores [2, 7, 3]");
  EXPECT_CONTAINS(
      reject(Op::Attention, {q, k, k, rows, rows}, {{"scale", 0.5}, {"factors", Ints{3, 3}}}),
      "attribute factors: expected a product of 6, the count of keys, found 9");
  EXPECT_CONTAINS(
      reject(Op::Attention, {q, k, k, rows, columns}, {{"scale", 0.5}, {"factors", Ints{0, 2}}}),
      "attribute factors: expected extents of 1 or more, found 0");
}

TEST_F(Infer, PoolRoundsUpButStartsInside) {
  Value *x = g.input(Element::F32, {1, 2, 5, 5});
  EXPECT_EQ(
      typeOf(
          Op::Pool, {x},
          {{"kind", Word{"max"}}, {"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"ceil", true}}),
      "tensor<1x2x3x3xf32>");
  // With a stride of 3 a third window would start in the padding.
  EXPECT_EQ(typeOf(Op::Pool, {x},
                   {{"kind", Word{"max"}},
                    {"kernel", Ints{1, 1}},
                    {"strides", Ints{3, 3}},
                    {"pads", Ints{0, 0, 2, 2}},
                    {"ceil", true}}),
            "tensor<1x2x2x2xf32>");
  EXPECT_CONTAINS(reject(Op::Pool, {x}, {{"kind", Word{"sum"}}, {"kernel", Ints{2, 2}}}),
                  "expected one of max, average, found sum");
}

TEST_F(Infer, ReshapeComparesProducts) {
  Value *x = g.input(Element::F32, {n, h, g.dim(6)});
  EXPECT_EQ(typeOf(g.b.reshape(x, {h, g.dim(2), n * 3})), "tensor<{H}x2x{(N * 3)}xf32>");
  EXPECT_CONTAINS(reject(Op::Reshape, {x}, {{"shape", Dims{h, n}}}),
                  "cannot reshape [N, H, 6] to [H, N]");
}

TEST_F(Infer, MovementRejects) {
  Value *x = g.input(Element::F32, {2, 3});
  EXPECT_CONTAINS(reject(Op::Transpose, {x}, {{"perm", Ints{0, 0}}}), "twice");
  EXPECT_CONTAINS(reject(Op::Transpose, {x}, {{"perm", Ints{0, 2}}}), "out of range for rank 2");
  EXPECT_CONTAINS(reject(Op::Concat, {x, g.input(Element::F32, {2, 4})}, {{"axis", 0}}),
                  "expected extent 3, found 4");
  EXPECT_CONTAINS(
      reject(Op::Slice, {x},
             {{"starts", g.dims({0, 2})}, {"sizes", g.dims({2, 2})}, {"steps", Ints{1, 1}}}),
      "index 3 is out of range for extent 3");
  EXPECT_CONTAINS(reject(Op::Gather, {x, x}, {{"axis", 0}}), "expected an integer tensor");
  EXPECT_CONTAINS(reject(Op::Pad, {x}, {{"low", g.dims({0, -1})}, {"high", g.dims({0, 0})}}),
                  "a negative pad is a slice");
}

TEST_F(Infer, MapChecksSpaceAndBody) {
  Value *x = g.input(Element::F32, {n, g.dim(4)}), *y = g.input(Element::F32, {5});
  g.b.map({x, y}, {IndexMap{0, 1}, IndexMap{1}}, {n, g.dim(4)},
          [](Builder &, llvm::ArrayRef<Value *> a) { return llvm::SmallVector<Value *, 2>{a[0]}; });
  EXPECT_CONTAINS(g.messages(), "iteration dimension 1: expected extent 4, found 5");
  g.diagnostics.clear();
  g.b.map({y}, {IndexMap{-1}}, {n},
          [](Builder &, llvm::ArrayRef<Value *> a) { return llvm::SmallVector<Value *, 2>{a[0]}; });
  EXPECT_CONTAINS(g.messages(), "is broadcast: expected extent 1, found 5");
  g.diagnostics.clear();
  g.b.map({y}, {IndexMap{0}}, {g.dim(5)}, [&](Builder &b, llvm::ArrayRef<Value *>) {
    Value *i = b.scalar(Op::Index, {}, {{"dim", 1}, {"to", Type::scalar(g.context, Element::I64)}});
    return llvm::SmallVector<Value *, 2>{i};
  });
  EXPECT_CONTAINS(g.messages(), "index: iteration dimension 1 is out of range for rank 1");
}

TEST_F(Infer, BirthOfASymbol) {
  Value *x = g.input(Element::F32, {4, 6});
  EXPECT_EQ(typeOf(Op::NonZero, {x}, {{"symbol", std::string("S")}}), "tensor<2x{S}xi64>");
  EXPECT_EQ(g.context.symbol("S").upper(), 24);
}

TEST_F(Infer, ExpressionsDoNotGrowWithoutBound) {
  Value *v = g.input(Element::F32, {n});
  for (int i = 0; i < 100 && v; ++i) {
    Value *square = g.b.pointwise(Op::Add, {g.b.reshape(v, {v->type().dim(0), g.dim(1)}), v});
    v = square ? g.b.reshape(square, {square->type().elements()}) : nullptr;
  }
  EXPECT_CONTAINS(g.messages(), "more than 4096 terms: bind its symbols");
}

TEST_F(Infer, HugeAttributesDoNotOverflow) {
  Value *x = g.input(Element::F32, {1, 1, 8, 8});
  EXPECT_CONTAINS(reject(Op::Pool, {x}, {{"kind", Word{"max"}}, {"kernel", Ints{INT64_MAX, 1}}}),
                  "attribute kernel");
  EXPECT_CONTAINS(
      reject(Op::Pool, {x},
             {{"kind", Word{"max"}}, {"kernel", Ints{1, 1}}, {"pads", Ints{INT64_MAX, 0, 0, 0}}}),
      "attribute pads");
  Value *big = g.input(Element::F32, {INT64_MAX, INT64_MAX});
  EXPECT_CONTAINS(reject(Op::Reshape, {big}, {{"shape", g.dims({3})}}), "cannot reshape");
}

} // namespace
} // namespace tenon::test
