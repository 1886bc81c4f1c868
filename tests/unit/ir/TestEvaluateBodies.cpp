// Tests map and reduce: broadcasting, typing of scalars, rounding, ties, NaN, several results.
#include "Support.h"

#include "ir/Extents.h"

namespace tenon::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor pointwise(Op op, llvm::ArrayRef<Tensor> operands, Element to = Element::Bool,
                 bool typed = false) {
  TestGraph g;
  llvm::SmallVector<Value *, 3> values;
  for (const Tensor &t : operands)
    values.push_back(g.constant(t));
  NamedAttributes attributes;
  if (typed)
    attributes.insert({"to", Type::scalar(g.context, to)});
  Value *v = g.b.pointwise(op, values, attributes);
  EXPECT_TRUE(v) << g.messages();
  g.finish({v});
  return g.run({})[0];
}
Tensor cast(const Tensor &t, Element to) { return pointwise(Op::Cast, {t}, to, true); }

TEST(Map, BroadcastsLikeNumPy) {
  Tensor a = randomTensor(Element::F32, {3, 1, 5}, 1), b = randomTensor(Element::F32, {4, 1}, 2);
  Tensor r = pointwise(Op::Sub, {a, b});
  ASSERT_EQ(shapeOf(r), (Shape{3, 4, 5}));
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t k = 0; k < 5; ++k)
        EXPECT_EQ(r.at((i * 4 + j) * 5 + k), float(a.at(i * 5 + k) - b.at(j)));
}

TEST(Map, LargeTensorsRunInTiles) {
  for (int64_t n : {1023, 1024, 1025, 20001}) {
    Tensor a = randomTensor(Element::F32, {3, n}, 3), b = randomTensor(Element::F32, {3, 1}, 4);
    Tensor r = pointwise(Op::Mul, {a, b});
    for (int64_t i = 0; i < 3 * n; ++i)
      ASSERT_EQ(r.at(i), float(a.at(i) * b.at(i / n)));
  }
}

TEST(Map, TransposedReadingAndIndex) {
  TestGraph g;
  Value *x = g.input(Element::I64, {2, 3});
  Operation *op = g.b.map(
      {x}, {IndexMap{1, 0}}, {g.dim(3), g.dim(2)}, [&](Builder &b, llvm::ArrayRef<Value *> a) {
        Value *i =
            b.scalar(Op::Index, {}, {{"dim", 0}, {"to", Type::scalar(g.context, Element::I64)}});
        return llvm::SmallVector<Value *, 2>{
            b.scalar(Op::Add, {a[0], b.scalar(Op::Mul, {i, b.scalarInt(Element::I64, 100)})}),
            a[0]};
      });
  ASSERT_TRUE(op) << g.messages();
  g.finish(op->results());
  auto out = g.run({tensor(Element::I64, {2, 3}, {0, 1, 2, 3, 4, 5})});
  EXPECT_EQ(values(out[0]), (std::vector<double>{0, 3, 101, 104, 202, 205}));
  EXPECT_EQ(values(out[1]), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(Map, EveryResultIsRoundedToF32) {
  // In double, (1 + 2^-30) - 1 would be 2^-30.
  Tensor one = tensor(Element::F32, {1}, {1}),
         tiny = tensor(Element::F32, {1}, {std::ldexp(1, -30)});
  TestGraph g;
  Operation *op =
      g.b.map({g.constant(one), g.constant(tiny)}, [](Builder &b, llvm::ArrayRef<Value *> a) {
        return llvm::SmallVector<Value *, 2>{
            b.scalar(Op::Sub, {b.scalar(Op::Add, {a[0], a[1]}), a[0]})};
      });
  g.finish(op->results());
  EXPECT_EQ(g.run({})[0].at(0), 0);
}

TEST(Map, IntegersWrap) {
  EXPECT_EQ(values(pointwise(Op::Add, {tensor(Element::I8, {2}, {127, -128}),
                                       tensor(Element::I8, {2}, {1, -1})})),
            (std::vector<double>{-128, 127}));
  EXPECT_EQ(
      values(pointwise(Op::Mul, {tensor(Element::U8, {1}, {200}), tensor(Element::U8, {1}, {2})})),
      (std::vector<double>{144}));
  EXPECT_EQ(values(pointwise(Op::Div, {tensor(Element::I32, {4}, {7, -7, 7, 5}),
                                       tensor(Element::I32, {4}, {2, 2, -2, 0})})),
            (std::vector<double>{3, -3, -3, 0}));
  EXPECT_EQ(values(pointwise(Op::Mod, {tensor(Element::I32, {3}, {7, -7, 7}),
                                       tensor(Element::I32, {3}, {3, 3, -3})})),
            (std::vector<double>{1, 2, -2}));
  EXPECT_EQ(values(pointwise(Op::FMod, {tensor(Element::I32, {3}, {7, -7, 7}),
                                        tensor(Element::I32, {3}, {3, 3, -3})})),
            (std::vector<double>{1, -1, 1}));
}

TEST(Map, TheUpperHalfOfU64) {
  const auto u64 = [](llvm::ArrayRef<uint64_t> values) {
    Tensor t(Element::U64, {int64_t(values.size())});
    for (size_t i = 0; i < values.size(); ++i)
      t.setInt(int64_t(i), int64_t(values[i]));
    return t;
  };
  const auto bits = [](const Tensor &t) {
    std::vector<uint64_t> v;
    for (int64_t i = 0; i < t.size(); ++i)
      v.push_back(uint64_t(t.intAt(i)));
    return v;
  };
  using Bits = std::vector<uint64_t>;
  const uint64_t top = uint64_t(1) << 63, all = ~uint64_t(0);
  const Tensor a = u64({top, 5, all, 0}), b = u64({1, top, all, top + 1});

  EXPECT_EQ(values(pointwise(Op::Less, {a, b})), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(values(pointwise(Op::LessEqual, {a, b})), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(values(pointwise(Op::Greater, {a, b})), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(values(pointwise(Op::GreaterEqual, {a, b})), (std::vector<double>{1, 0, 1, 0}));
  EXPECT_EQ(bits(pointwise(Op::Min, {a, b})), (Bits{1, 5, all, 0}));
  EXPECT_EQ(bits(pointwise(Op::Max, {a, b})), (Bits{top, top, all, top + 1}));
  EXPECT_EQ(bits(pointwise(Op::Clamp, {a, u64({1}), u64({top})})), (Bits{top, 5, top, 1}));
  EXPECT_EQ(bits(pointwise(Op::Relu, {a})), bits(a));
  EXPECT_EQ(bits(pointwise(Op::Abs, {a})), bits(a));
  EXPECT_EQ(bits(pointwise(Op::Sign, {a})), (Bits{1, 1, 1, 0}));
  EXPECT_EQ(bits(pointwise(Op::Div, {a, u64({2})})), (Bits{top / 2, 2, all / 2, 0}));
  EXPECT_EQ(bits(pointwise(Op::Div, {a, u64({all})})), (Bits{0, 0, 1, 0}));
  EXPECT_EQ(bits(pointwise(Op::Mod, {a, u64({10})})), (Bits{top % 10, 5, 5, 0}));
  EXPECT_EQ(bits(pointwise(Op::FMod, {a, u64({all})})), (Bits{top, 5, 0, 0}));
  EXPECT_EQ(bits(pointwise(Op::ShiftRight, {a, u64({62, 62, 62, all})})), (Bits{2, 0, 3, 0}));

  EXPECT_EQ(values(cast(a, Element::F64)), (std::vector<double>{0x1p63, 5, 0x1p64, 0}));
  EXPECT_EQ(values(cast(a, Element::F32)), (std::vector<double>{0x1p63, 5, 0x1p64, 0}));
  const Tensor reals = tensor(Element::F64, {6}, {0x1p63, 0x1.8p63, 0x1p64, kInf, -1, kNaN});
  EXPECT_EQ(bits(cast(reals, Element::U64)), (Bits{top, top + top / 2, all, all, 0, 0}));
  EXPECT_EQ(bits(cast(cast(a, Element::I64), Element::U64)), bits(a));
}

TEST(Map, NaNWinsMinMaxAndClamp) {
  Tensor x = tensor(Element::F32, {4}, {kNaN, 1, kNaN, -2}),
         y = tensor(Element::F32, {4}, {1, kNaN, kNaN, 3});
  for (Op op : {Op::Min, Op::Max}) {
    Tensor r = pointwise(op, {x, y});
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(std::isnan(r.at(i)));
    EXPECT_EQ(r.at(3), op == Op::Min ? -2 : 3);
  }
  EXPECT_TRUE(std::isnan(pointwise(Op::Relu, {x}).at(0)));
  Tensor lo = Tensor::scalar(Element::F32, 0), hi = Tensor::scalar(Element::F32, 1);
  EXPECT_TRUE(std::isnan(pointwise(Op::Clamp, {x, lo, hi}).at(0)));
}

TEST(Map, ComparisonsWithNaNAreFalse) {
  Tensor x = tensor(Element::F32, {2}, {kNaN, 1}), y = tensor(Element::F32, {2}, {1, 1});
  EXPECT_EQ(values(pointwise(Op::Equal, {x, y})), (std::vector<double>{0, 1}));
  EXPECT_EQ(values(pointwise(Op::NotEqual, {x, y})), (std::vector<double>{1, 0}));
  EXPECT_EQ(values(pointwise(Op::LessEqual, {x, y})), (std::vector<double>{0, 1}));
  EXPECT_EQ(values(pointwise(Op::IsNaN, {x})), (std::vector<double>{1, 0}));
  EXPECT_EQ(pointwise(Op::Equal, {x, y}).element(), Element::Bool);
}

TEST(Map, QuantizeTiesGoToEvenAndSaturate) {
  Tensor x = tensor(Element::F32, {8}, {0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, kNaN});
  Tensor scale = Tensor::scalar(Element::F32, 1);
  Tensor q = pointwise(Op::Quantize, {x, scale, Tensor::scalar(Element::I8, 3)});
  EXPECT_EQ(q.element(), Element::I8);
  EXPECT_EQ(values(q), (std::vector<double>{3, 5, 5, 3, 1, 127, -128, 0}));
  Tensor u = pointwise(Op::Quantize, {x, scale, Tensor::scalar(Element::U8, 128)});
  EXPECT_EQ(values(u), (std::vector<double>{128, 130, 130, 128, 126, 255, 0, 0}));
  // The quotient is an f32: in double 1.05 / 0.7 is just below 1.5.
  Tensor third =
      pointwise(Op::Quantize, {Tensor::scalar(Element::F32, 1.05f),
                               Tensor::scalar(Element::F32, 0.7f), Tensor::scalar(Element::I8, 0)});
  EXPECT_EQ(third.at(0), std::nearbyint(1.05f / 0.7f));
  EXPECT_EQ(values(pointwise(Op::Dequantize, {q, Tensor::scalar(Element::F32, 0.5),
                                              Tensor::scalar(Element::I8, 3)})),
            (std::vector<double>{0, 1, 1, 0, -1, 62, -65.5, -1.5}));
}

TEST(Map, QuantizeToNarrowFloatsDoesNotRoundToIntegers) {
  Tensor q = pointwise(Op::Quantize,
                       {tensor(Element::F32, {3}, {0.3, 1000, -3}), Tensor::scalar(Element::F32, 2),
                        Tensor::scalar(Element::F8E4M3, 0)});
  EXPECT_EQ(values(q), (std::vector<double>{0.15625, 448, -1.5}));
}

TEST(Map, Casts) {
  Tensor x = tensor(Element::F32, {6}, {1.9, -1.9, 300, -300, kNaN, kInf});
  EXPECT_EQ(values(cast(x, Element::I8)), (std::vector<double>{1, -1, 127, -128, 0, 127}));
  EXPECT_EQ(values(cast(x, Element::U8)), (std::vector<double>{1, 0, 255, 0, 0, 255}));
  EXPECT_EQ(values(cast(x, Element::Bool)), (std::vector<double>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(values(cast(tensor(Element::I32, {2}, {300, -1}), Element::U8)),
            (std::vector<double>{44, 255}));
  EXPECT_EQ(cast(tensor(Element::I32, {1}, {16777217}), Element::F32).at(0), 16777216);
  EXPECT_EQ(values(cast(tensor(Element::F32, {3}, {1 + 1.0 / 2048, 1 + 3.0 / 2048, 65520}),
                        Element::F16)),
            (std::vector<double>{1, 1 + 2.0 / 1024, kInf}));
  EXPECT_EQ(cast(Tensor::scalar(Element::F64, 0.1), Element::F64).at(0), 0.1);
  EXPECT_EQ(cast(Tensor::scalar(Element::F64, 0.1), Element::F32).at(0), double(0.1f));
}

TEST(Map, RoundIsHalfToEven) {
  EXPECT_EQ(values(pointwise(Op::Round, {tensor(Element::F32, {5}, {0.5, 1.5, 2.5, -0.5, -2.5})})),
            (std::vector<double>{0, 2, 2, -0.0, -2}));
}

TEST(Map, IdentityCopiesBits) {
  // A signalling pattern would change under arithmetic.
  Tensor x(Element::F16, {2, 1});
  x.mutableAs<uint16_t>()[0] = 0x7d01;
  x.mutableAs<uint16_t>()[1] = 0x8000;
  TestGraph g;
  g.finish({g.b.broadcastTo(g.constant(x), g.dims({2, 3}))});
  Tensor r = g.run({})[0];
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(r.as<uint16_t>()[i], i < 3 ? 0x7d01 : 0x8000);
}

TEST(Map, ZeroSizes) {
  EXPECT_EQ(
      shapeOf(pointwise(Op::Add, {Tensor(Element::F32, {0, 3}), Tensor(Element::F32, {1, 3})})),
      (Shape{0, 3}));
}

Tensor reduceOf(Op combiner, const Tensor &x, Ints axes, double identity) {
  TestGraph g;
  Value *v = g.b.reduce(combiner, g.constant(x), axes, identity);
  EXPECT_TRUE(v) << g.messages();
  g.finish({v});
  return g.run({})[0];
}

TEST(Reduce, AnyAxes) {
  // Wide and deep shapes take different ways through the interpreter.
  for (Shape shape : {Shape{3, 4, 5}, Shape{2, 3000, 2}, Shape{1500, 2, 3}, Shape{1, 5000, 1}}) {
    Tensor x = randomTensor(Element::F32, shape, 7);
    for (Ints axes : {Ints{0}, Ints{1}, Ints{2}, Ints{0, 2}, Ints{1, 2}, Ints{0, 1, 2}, Ints{}}) {
      std::vector<double> sum, largest;
      Shape kept;
      for (int64_t d = 0; d < 3; ++d)
        if (!llvm::is_contained(axes, d))
          kept.push_back(shape[size_t(d)]);
      int64_t n = 1;
      for (int64_t d : kept)
        n *= d;
      sum.assign(size_t(n), 0), largest.assign(size_t(n), -kInf);
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t index[3] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
        size_t at = 0;
        for (int64_t d = 0; d < 3; ++d)
          if (!llvm::is_contained(axes, d))
            at = at * size_t(shape[size_t(d)]) + size_t(index[d]);
        sum[at] += x.at(i);
        largest[at] = std::max(largest[at], x.at(i));
      }
      for (double &s : sum)
        s = float(s);
      Tensor r = reduceOf(Op::Add, x, axes, 0);
      EXPECT_EQ(shapeOf(r), kept);
      EXPECT_EQ(values(r), sum); // in double, rounded once
      EXPECT_EQ(values(reduceOf(Op::Max, x, axes, -kInf)), largest);
    }
  }
}

Tensor scanOf(Op combiner, const Tensor &x, int64_t axis, double init, bool exclusive,
              bool reverse) {
  TestGraph g;
  Operation *op = g.b.scan(combiner, g.constant(x), axis, init, exclusive, reverse);
  EXPECT_TRUE(op) << g.messages();
  g.finish({op->result()});
  return g.run({})[0];
}

TEST(Scan, AnyAxisAndDirection) {
  // The middle one has more lines than a tile.
  for (Shape shape : {Shape{3, 4, 5}, Shape{2, 30, 700}, Shape{1, 2000, 1}}) {
    const Tensor x = randomTensor(Element::F32, shape, 7);
    for (int64_t axis : {0, 1, 2})
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true}) {
          const int64_t n = shape[size_t(axis)];
          const int64_t inner = product(llvm::makeArrayRef(shape).drop_front(size_t(axis) + 1));
          std::vector<double> want(size_t(x.size()));
          for (int64_t first = 0; first < x.size(); ++first) {
            if (first / inner % n != 0)
              continue;
            double sum = 0;
            for (int64_t step = 0; step < n; ++step) {
              const int64_t at = first + (reverse ? n - 1 - step : step) * inner;
              want[size_t(at)] = float(exclusive ? sum : sum + x.at(at));
              sum += x.at(at);
            }
          }
          EXPECT_EQ(values(scanOf(Op::Add, x, axis, 0, exclusive, reverse)), want);
        }
  }
}

TEST(Scan, IntegersWrapAndNothingStaysNothing) {
  EXPECT_EQ(values(scanOf(Op::Add, tensor(Element::I8, {3}, {100, 100, 1}), 0, 0, false, false)),
            (std::vector<double>{100, -56, -55}));
  EXPECT_EQ(values(scanOf(Op::Mul, tensor(Element::I32, {3}, {2, 3, 4}), 0, 1, true, true)),
            (std::vector<double>{12, 4, 1}));
  EXPECT_EQ(scanOf(Op::Add, Tensor(Element::F32, {2, 0}), 1, 0, false, false).size(), 0);
}

TEST(Reduce, SumsAccumulateInDouble) {
  Tensor x(Element::F32, {20000});
  for (int64_t i = 0; i < x.size(); ++i)
    x.set(i, i == 0 ? 1e8 : 1);
  EXPECT_EQ(reduceOf(Op::Add, x, {0}, 0).at(0), double(float(1e8 + 19999)));
}

TEST(Reduce, IntegersWrapAndEmptyGivesTheIdentity) {
  EXPECT_EQ(reduceOf(Op::Add, tensor(Element::I8, {3}, {100, 100, 100}), {0}, 0).at(0), 44);
  Tensor r = reduceOf(Op::Mul, Tensor(Element::F32, {2, 0}), {1}, 1);
  EXPECT_EQ(values(r), (std::vector<double>{1, 1}));
  EXPECT_EQ(reduceOf(Op::Min, Tensor(Element::I32, {0}), {0}, kInf).at(0), INT32_MAX);
  EXPECT_EQ(reduceOf(Op::Min, Tensor(Element::U64, {0}), {0}, kInf).at(0), 0x1p64);
  EXPECT_EQ(reduceOf(Op::Max, tensor(Element::U64, {3}, {1, 0x1p63, 2}), {0}, 0).at(0), 0x1p63);
}

TEST(Reduce, ArgMaxKeepsTwoAccumulators) {
  for (int64_t rows : {2, 1100}) {
    TestGraph g;
    Value *x = g.input(Element::F32, {rows, 5});
    NamedAttributes attributes{
        {"maps", IntLists{{0, 1}}}, {"axes", Ints{1}}, {"init", Floats{-kInf, 0}}};
    Operation *op = g.b.create(Op::Reduce, {x}, attributes, 1, [&](unsigned, Region &body) {
      Type f = Type::scalar(g.context, Element::F32), i = Type::scalar(g.context, Element::I64);
      Value *best = body.addArgument(f), *at = body.addArgument(i), *element = body.addArgument(f);
      Builder b(body, g.diagnostics);
      Value *here = b.scalar(Op::Index, {}, {{"dim", 1}, {"to", i}});
      Value *better = b.scalar(Op::Greater, {element, best});
      b.yield({b.scalar(Op::Select, {better, element, best}),
               b.scalar(Op::Select, {better, here, at})});
    });
    ASSERT_TRUE(op) << g.messages();
    g.finish(op->results());
    Tensor data = randomTensor(Element::F32, {rows, 5}, 9);
    auto out = g.run({data});
    for (int64_t r = 0; r < rows; ++r) {
      int64_t best = 0;
      for (int64_t k = 1; k < 5; ++k)
        if (data.at(r * 5 + k) > data.at(r * 5 + best))
          best = k;
      ASSERT_EQ(out[1].intAt(r), best);
      ASSERT_EQ(out[0].at(r), data.at(r * 5 + best));
    }
  }
}

TEST(Reduce, ComputesOnElementsFirst) {
  for (int64_t n : {3, 5000}) { // Σ (x · index)
    TestGraph g;
    Value *x = g.input(Element::F32, {2, n});
    NamedAttributes attributes{{"maps", IntLists{{0, 1}}}, {"axes", Ints{1}}, {"init", Floats{0}}};
    Operation *op = g.b.create(Op::Reduce, {x}, attributes, 1, [&](unsigned, Region &body) {
      Type f = Type::scalar(g.context, Element::F32);
      Value *sum = body.addArgument(f), *element = body.addArgument(f);
      Builder b(body, g.diagnostics);
      Value *i =
          b.scalar(Op::Index, {}, {{"dim", 1}, {"to", Type::scalar(g.context, Element::I64)}});
      Value *product = b.scalar(Op::Mul, {element, b.scalar(Op::Cast, {i}, {{"to", f}})});
      b.yield({b.scalar(Op::Add, {product, sum})});
    });
    ASSERT_TRUE(op) << g.messages();
    g.finish(op->results());
    Tensor data = randomTensor(Element::F32, {2, n}, 11);
    Tensor r = g.run({data})[0];
    for (int64_t row = 0; row < 2; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k)
        sum += float(data.at(row * n + k) * double(k));
      EXPECT_EQ(r.at(row), double(float(sum)));
    }
  }
}

TEST(Softmax, AddsUpAndSurvivesLargeInputs) {
  Tensor x = tensor(Element::F32, {2, 3}, {1000, 1001, 1002, -5, -5, -5});
  Tensor r = evaluateOp(Op::Softmax, {x}, [](TestGraph &) {
    return NamedAttributes{{"axis", 1}};
  })[0];
  expectNear(r, {0.09003057, 0.24472847, 0.66524096, 1 / 3.0, 1 / 3.0, 1 / 3.0}, 1e-7);
  Tensor l = evaluateOp(Op::Softmax, {x}, [](TestGraph &) {
    return NamedAttributes{{"axis", 0}, {"log", true}};
  })[0];
  EXPECT_EQ(l.at(0), 0);
  EXPECT_EQ(l.at(3), -1005);
}

TEST(Normalize, OverAxesInAnyOrderOfMemory) {
  Tensor x = tensor(Element::F32, {2, 2, 2}, {1, 3, 5, 7, 10, 14, 30, 38});
  auto over = [&](Ints axes, bool centered) {
    return evaluateOp(Op::Normalize, {x}, [&](TestGraph &) {
      return NamedAttributes{{"axes", axes}, {"epsilon", 0.0}, {"centered", centered}};
    })[0];
  };
  expectNear(over({2}, true), {-1, 1, -1, 1, -1, 1, -1, 1}, 1e-7);
  expectNear(over({0, 2}, true),
             {-1.144155, -0.762770, -1.048925, -0.909069, 0.572078, 1.334848, 0.699284, 1.258711},
             1e-6);
  EXPECT_NEAR(over({2}, false).at(0), std::sqrt(1 / 5.0), 1e-7);
  EXPECT_NEAR(over({2}, false).at(1), std::sqrt(9 / 5.0), 1e-7);
}

} // namespace
} // namespace tenon::test
