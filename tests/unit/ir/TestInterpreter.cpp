// Tests the interpreter as a whole: control flow, symbols, data-dependent extents, limits, errors.
#include "Support.h"

namespace tenon::test {
namespace {

Tensor boolean(bool b) { return Tensor::scalar(Element::Bool, b); }

TEST(Interpreter, IfRunsOneBranchWithCaptures) {
  TestGraph g;
  Value *cond = g.input(Element::Bool, llvm::ArrayRef<int64_t>{}), *x = g.input(Element::F32, {3});
  Operation *op = g.b.create(Op::If, {cond, x}, {}, 2, [&](unsigned i, Region &r) {
    Value *in = r.addArgument(x->type());
    Builder b(r, g.diagnostics);
    b.yield({b.pointwise(i == 0 ? Op::Neg : Op::Abs, {in})});
  });
  ASSERT_TRUE(op) << g.messages();
  g.finish(op->results());
  Tensor data = tensor(Element::F32, {3}, {1, -2, 3});
  EXPECT_EQ(values(g.run({boolean(true), data})[0]), (std::vector<double>{-1, 2, -3}));
  EXPECT_EQ(values(g.run({boolean(false), data})[0]), (std::vector<double>{1, 2, 3}));
}

/// Both regions shorten what they get, in their own ways; `extents` are the result's.
Operation *shortened(TestGraph &g, Value *cond, Value *x, Dims extents) {
  return g.b.create(Op::If, {cond, x}, {{"extents", std::move(extents)}}, 2,
                    [&](unsigned i, Region &r) {
                      Value *in = r.addArgument(x->type());
                      Builder b(r, g.diagnostics);
                      b.yield({b.value(Op::Slice, {in},
                                       {{"starts", Dims{g.dim(i == 0 ? 0 : 1)}},
                                        {"sizes", Dims{g.dim(i == 0 ? 1 : 3)}},
                                        {"steps", Ints{1}}})});
                    });
}

TEST(Interpreter, ExtentsOfABranchAreBorn) {
  TestGraph g;
  Value *cond = g.input(Element::Bool, llvm::ArrayRef<int64_t>{}), *x = g.input(Element::F32, {5});
  Operation *op = shortened(g, cond, x, {g.context.symbol("S", 1, 3)});
  ASSERT_TRUE(op) << g.messages();
  Value *y = op->result();
  Value *tail = g.b.value(Op::Slice, {y},
                          {{"starts", Dims{g.dim(0)}},
                           {"sizes", Dims{ceilDiv(y->type().dim(0), 2)}},
                           {"steps", Ints{1}}});
  g.finish({y, tail});
  Tensor data = tensor(Element::F32, {5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(values(g.run({boolean(true), data})[0]), (std::vector<double>{1}));
  EXPECT_EQ(values(g.run({boolean(false), data})[0]), (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(values(g.run({boolean(false), data})[1]), (std::vector<double>{2, 3}));
}

TEST(Interpreter, ExtentsOfABranchAreTheShapesOfItsResults) {
  TestGraph g;
  Value *cond = g.input(Element::Bool, llvm::ArrayRef<int64_t>{}), *x = g.input(Element::F32, {5});
  EXPECT_FALSE(shortened(g, cond, x, {g.dim(3)}));
  EXPECT_CONTAINS(g.messages(), "expected the extent 3 of both, or a symbol of the result's own");
  g.diagnostics.clear();
  EXPECT_FALSE(shortened(g, cond, x, {}));
  EXPECT_CONTAINS(g.messages(), "attribute extents: expected the shapes of all results");
  g.diagnostics.clear();
  const Dim s = g.context.symbol("S", 1, 3);
  EXPECT_FALSE(shortened(g, cond, x, {s, s}));
  EXPECT_CONTAINS(g.messages(), "attribute extents: expected the shapes of all results");
}

/// sum += x each round while sum[0] < 5; the scan collects the sums.
struct LoopGraph : TestGraph {
  explicit LoopGraph(Dim extent(TestGraph &)) {
    Value *trip = input(Element::I64, llvm::ArrayRef<int64_t>{});
    Value *x = input(Element::F32, {2});
    Value *start = constant(Tensor(Element::F32, {2})), *cond = constant(boolean(true));
    NamedAttributes attributes{{"carried", 1}, {"scans", 1}, {"max_trip", Dims{extent(*this)}}};
    Operation *op =
        b.create(Op::Loop, {trip, cond, start, x}, attributes, 1, [&](unsigned, Region &r) {
          r.addArgument(trip->type());
          r.addArgument(cond->type());
          Value *sum = r.addArgument(x->type()), *in = r.addArgument(x->type());
          Builder body(r, diagnostics);
          Value *next = body.pointwise(Op::Add, {sum, in});
          Value *first = body.value(
              Op::Slice, {next}, {{"starts", dims({0})}, {"sizes", dims({1})}, {"steps", Ints{1}}});
          Value *limit = body.scalarConstant(Element::F32, 5);
          body.yield({body.pointwise(Op::Less, {body.reshape(first, {}), limit}), next, next});
        });
    EXPECT_TRUE(op) << messages();
    finish(op->results());
  }
};

TEST(Interpreter, LoopCarriesAndScans) {
  LoopGraph g([](TestGraph &t) { return t.context.symbol("T", 0, 100); });
  Tensor x = tensor(Element::F32, {2}, {2, 3});
  auto out = g.run({Tensor::scalar(Element::I64, 10), x}); // the condition ends it
  EXPECT_EQ(values(out[0]), (std::vector<double>{6, 9}));
  EXPECT_EQ(shapeOf(out[1]), (Shape{3, 2}));
  EXPECT_EQ(values(out[1]), (std::vector<double>{2, 3, 4, 6, 6, 9}));
  out = g.run({Tensor::scalar(Element::I64, 2), x}); // the count ends it
  EXPECT_EQ(values(out[0]), (std::vector<double>{4, 6}));
  out = g.run({Tensor::scalar(Element::I64, 0), x});
  EXPECT_EQ(values(out[0]), (std::vector<double>{0, 0}));
  EXPECT_EQ(shapeOf(out[1]), (Shape{0, 2}));
}

TEST(Interpreter, LoopMustRunAsOftenAsItsTypeSays) {
  LoopGraph g([](TestGraph &t) { return t.dim(4); });
  std::vector<Tensor> outputs;
  EXPECT_FALSE(interpret(g.graph,
                         {Tensor::scalar(Element::I64, 10), tensor(Element::F32, {2}, {2, 3})},
                         outputs, g.diagnostics));
  EXPECT_NE(g.messages().find("loop ran 3 times: expected 4"), std::string::npos) << g.messages();
}

TEST(Interpreter, ReleasesNothingTooEarly) {
  TestGraph g;
  Value *x = g.input(Element::F32, {4});
  Value *a = g.b.pointwise(Op::Add, {x, x});
  Value *b = g.b.pointwise(Op::Mul, {a, x});
  Value *c = g.b.pointwise(Op::Sub, {b, a});
  g.finish({c, x, c});
  unsigned observed = 0;
  InterpreterOptions options;
  options.observe = [&](Value *, const Tensor &) { ++observed; };
  auto out = g.run({tensor(Element::F32, {4}, {1, 2, 3, 4})}, options);
  EXPECT_EQ(values(out[0]), (std::vector<double>{0, 4, 12, 24}));
  EXPECT_EQ(values(out[1]), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(values(out[2]), values(out[0]));
  EXPECT_EQ(observed, 3u);
}

TEST(Interpreter, GroupsAreTransparent) {
  TestGraph g;
  Value *x = g.input(Element::F32, {2});
  Operation *group = g.b.create(Op::Group, {x}, {}, 1, [&](unsigned, Region &r) {
    Value *in = r.addArgument(x->type());
    Builder b(r, g.diagnostics);
    b.yield({b.pointwise(Op::Relu, {b.pointwise(Op::Neg, {in})})});
  });
  ASSERT_TRUE(group) << g.messages();
  g.finish(group->results());
  unsigned observed = 0;
  InterpreterOptions options;
  options.observe = [&](Value *, const Tensor &) { ++observed; };
  EXPECT_EQ(values(g.run({tensor(Element::F32, {2}, {-3, 3})}, options)[0]),
            (std::vector<double>{3, 0}));
  EXPECT_EQ(observed, 1u); // only the group's result
}

TEST(Interpreter, WideRoundsNothing) {
  // Half precision loses the last bit of the square.
  TestGraph g;
  Value *x = g.input(Element::F16, {2});
  Value *y = g.b.pointwise(Op::Mul, {x, x});
  g.finish({y});
  const Tensor in = tensor(Element::F16, {2}, {1 + 0x1p-10, 3});
  const double square = (1 + 0x1p-10) * (1 + 0x1p-10);
  EXPECT_EQ(values(g.run({in})[0]), (std::vector<double>{1 + 0x1p-9, 9}));
  InterpreterOptions options;
  options.wide = true;
  unsigned seen = 0;
  options.after = [&](const Operation &op, llvm::ArrayRef<Tensor> operands,
                      llvm::ArrayRef<Tensor> results, const SymbolValues &symbols) {
    EXPECT_EQ(operands[0].element(), Element::F64);
    llvm::SmallVector<Tensor, 2> again;
    std::string why;
    ASSERT_TRUE(evaluateWide(op, {in, in}, symbols, again, why)) << why;
    EXPECT_TRUE(again[0].sameBytes(results[0]));
    ++seen;
  };
  auto out = g.run({in}, options);
  EXPECT_EQ(out[0].element(), Element::F64);
  EXPECT_EQ(values(out[0]), (std::vector<double>{square, 9}));
  EXPECT_EQ(seen, 1u);
}

TEST(Interpreter, WideRoundsWhereTheModelDoes) {
  TestGraph g;
  Value *x = g.input(Element::F32, {1});
  std::vector<Value *> made;
  for (bool rounds : {false, true})
    made.push_back(g.b.map({x},
                           [&](Builder &b, llvm::ArrayRef<Value *> v) {
                             NamedAttributes to{{"to", Type::scalar(g.context, Element::F16)}};
                             if (rounds)
                               to.insert({"rounds", Attribute(true)});
                             return llvm::SmallVector<Value *, 2>{b.scalar(Op::Cast, {v[0]}, to)};
                           })
                       ->result());
  g.finish(made);
  InterpreterOptions options;
  options.wide = true;
  auto out = g.run({tensor(Element::F32, {1}, {1 + 0x1p-13})}, options);
  EXPECT_EQ(values(out[0]), std::vector<double>{1 + 0x1p-13});
  EXPECT_EQ(values(out[1]), std::vector<double>{1});
}

TEST(Interpreter, NonZeroGivesItsSymbolAValue) {
  TestGraph g;
  Value *x = g.input(Element::F32, {2, 3});
  Value *nz = g.b.value(Op::NonZero, {x}, {{"symbol", std::string("S")}});
  Value *twice = g.b.pointwise(Op::Add, {nz, nz}); // an op on S elements
  g.finish({nz, twice});
  auto out = g.run({tensor(Element::F32, {2, 3}, {0, 5, 0, 7, 0, 8})});
  EXPECT_EQ(shapeOf(out[0]), (Shape{2, 3}));
  EXPECT_EQ(values(out[0]), (std::vector<double>{0, 1, 1, 1, 0, 2}));
  EXPECT_EQ(values(out[1]), (std::vector<double>{0, 2, 2, 2, 0, 4}));
  EXPECT_EQ(shapeOf(g.run({Tensor(Element::F32, {2, 3})})[0]), (Shape{2, 0}));
}

TEST(Interpreter, TopKOrdersTiesByIndex) {
  auto topk = [](Tensor x, int64_t k, bool largest) {
    return evaluateOp(Op::TopK, {x}, [&](TestGraph &g) {
      return NamedAttributes{{"k", g.dims({k})}, {"axis", 0}, {"largest", largest}};
    });
  };
  auto r = topk(tensor(Element::F32, {5}, {2, 7, 2, 7, 1}), 3, true);
  EXPECT_EQ(values(r[0]), (std::vector<double>{7, 7, 2}));
  EXPECT_EQ(values(r[1]), (std::vector<double>{1, 3, 0}));
  r = topk(tensor(Element::I32, {4}, {3, 1, 1, 2}), 2, false);
  EXPECT_EQ(values(r[1]), (std::vector<double>{1, 2}));
  r = topk(tensor(Element::U64, {3}, {1, 0x1p63, 5}), 2, true);
  EXPECT_EQ(values(r[0]), (std::vector<double>{0x1p63, 5}));
  r = topk(tensor(Element::F32, {3}, {1, std::nan(""), 5}), 1, true);
  EXPECT_EQ(values(r[1]), (std::vector<double>{1}));
}

TEST(Interpreter, NonMaxSuppressionTakesTheBestFirst) {
  // Boxes 0 and 1 overlap by more than half, 2 lies apart, 3 is 2 with its corners swapped.
  Tensor boxes =
      tensor(Element::F32, {1, 4, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 5, 5, 6, 6, 6, 6, 5, 5});
  auto suppress = [&](std::vector<double> scores, int64_t k, double iou, double least) {
    return values(evaluateOp(
        Op::NonMaxSuppression, {boxes, tensor(Element::F32, {1, 1, 4}, scores)}, [&](TestGraph &g) {
          return NamedAttributes{
              {"k", g.dims({k})}, {"iou_threshold", iou}, {"score_threshold", least}};
        })[0]);
  };
  EXPECT_EQ(suppress({0.9, 0.8, 0.5, 0.5}, 4, 0.5, 0), (std::vector<double>{0, 2, -1, -1}));
  EXPECT_EQ(suppress({0.8, 0.9, 0.5, 0.6}, 4, 0.5, 0), (std::vector<double>{1, 3, -1, -1}));
  EXPECT_EQ(suppress({0.9, 0.8, 0.5, 0.5}, 3, 1, 0), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(suppress({0.9, 0.8, 0.5, 0.5}, 2, 0.5, 0.5), (std::vector<double>{0, -1}));
}

TEST(Interpreter, UniqueFormsClassesOfRows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto classes = [](const Tensor &x, bool sorted) {
    return values(evaluateOp(Op::Unique, {x}, [&](TestGraph &) {
      return NamedAttributes{{"sorted", sorted}};
    })[0]);
  };
  const Tensor x = tensor(Element::F32, {5, 1}, {nan, 2, -1, nan, 2});
  EXPECT_EQ(classes(x, true), (std::vector<double>{2, 1, 0, 2, 1, 2, 1, 0, -1, -1, 1, 2, 2, 0, 0}));
  EXPECT_EQ(classes(x, false),
            (std::vector<double>{0, 1, 2, 0, 1, 0, 1, 2, -1, -1, 2, 2, 1, 0, 0}));
  // Rows are compared from their first element on.
  EXPECT_EQ(classes(tensor(Element::U8, {3, 2}, {1, 9, 1, 200, 0, 255}), true),
            (std::vector<double>{1, 2, 0, 2, 0, 1, 1, 1, 1}));
  EXPECT_EQ(classes(Tensor::strings({3, 1}, {"b", "a", "b"}), true),
            (std::vector<double>{1, 0, 1, 1, 0, -1, 1, 2, 0}));
}

TEST(Interpreter, FunctionsOfText) {
  const Tensor x = Tensor::strings({2, 1}, {"Ab", "c"}), y = Tensor::strings({2}, {"Ab", ""});
  auto apply = [](llvm::ArrayRef<Tensor> operands, NamedAttributes attributes) {
    return evaluateOp(Op::TextMap, operands, [&](TestGraph &) { return attributes; })[0];
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(apply({x, y}, {{"function", Word{"concat"}}}).stringValues(),
            (Texts{"AbAb", "Ab", "cAb", "c"}));
  EXPECT_EQ(values(apply({x, y}, {{"function", Word{"equal"}}})),
            (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(apply({x}, {{"function", Word{"upper"}}}).stringValues(), (Texts{"AB", "C"}));
  EXPECT_EQ(apply({x}, {{"function", Word{"lower"}}}).stringValues(), (Texts{"ab", "c"}));
  EXPECT_EQ(values(apply({x}, {{"function", Word{"match"}}, {"pattern", std::string("[A-Z].")}})),
            (std::vector<double>{1, 0}));
  EXPECT_EQ(values(apply({x}, {{"function", Word{"index"}}, {"keys", Strings{"d", "c"}}})),
            (std::vector<double>{-1, 1}));
}

TEST(Interpreter, SplitsText) {
  auto split = [](const char *text, const char *delimiter, int64_t limit) {
    auto r = evaluateOp(Op::TextSplit, {Tensor::strings({1}, {text})}, [&](TestGraph &g) {
      g.context.symbol("pieces", 0, 9);
      NamedAttributes a{{"delimiter", std::string(delimiter)}, {"symbol", std::string("pieces")}};
      if (limit >= 0)
        a.insert({"limit", limit});
      return a;
    });
    NamedAttributes count{{"function", Word{"count"}}, {"delimiter", std::string(delimiter)}};
    if (limit >= 0)
      count.insert({"limit", limit});
    auto counts =
        evaluateOp(Op::TextMap, {Tensor::strings({1}, {text})}, [&](TestGraph &) { return count; });
    EXPECT_EQ(counts[0].intAt(0), r[0].size());
    return r[0].stringValues();
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(split("a,,b", ",", -1), (Texts{"a", "", "b"}));
  EXPECT_EQ(split("a,b,c", ",", 1), (Texts{"a", "b,c"}));
  EXPECT_EQ(split("  a \t b  c ", "", -1), (Texts{"a", "b", "c"}));
  EXPECT_EQ(split(" a b c ", "", 1), (Texts{"a", "b c "}));
  EXPECT_EQ(split("", ",", -1), (Texts{""}));
  EXPECT_EQ(split("", "", -1), Texts());
}

TEST(Interpreter, BindsSymbolsFromInputs) {
  TestGraph g;
  Dim n = g.context.symbol("N", 1, 4);
  Value *x = g.input(Element::F32, {n, g.dim(2)}), *y = g.input(Element::F32, {n * 2});
  g.finish({g.b.reshape(x, {n * 2}), y});
  EXPECT_EQ(shapeOf(g.run({Tensor(Element::F32, {3, 2}), Tensor(Element::F32, {6})})[0]),
            (Shape{6}));
  auto message = [&](Tensor a, Tensor b) {
    g.diagnostics.clear();
    std::vector<Tensor> outputs;
    EXPECT_FALSE(interpret(g.graph, {a, b}, outputs, g.diagnostics));
    return g.messages();
  };
  EXPECT_EQ(message(Tensor(Element::F32, {3, 2}), Tensor(Element::F32, {5})),
            "input 'input1': dimension 0: expected extent (N * 2) = 6, found 5\n");
  EXPECT_EQ(message(Tensor(Element::F32, {5, 2}), Tensor(Element::F32, {10})),
            "input 'input0': dimension 0: expected N from 1 to 4, found 5\n");
  EXPECT_EQ(message(Tensor(Element::F32, {3, 2}), Tensor(Element::F16, {6})),
            "input 'input1': expected tensor<{(N * 2)}xf32>, found [6] of f16\n");
}

TEST(Interpreter, BindsTheOneSymbolOfAnExpression) {
  TestGraph g;
  const Dim h = g.context.symbol("h", 1, 4), w = g.context.symbol("w", 1, 4);
  Value *x = g.input(Element::F32, {h * 32 - 1, w + h}), *y = g.input(Element::F32, {h});
  g.finish({g.b.reshape(x, {(h * 32 - 1) * (w + h)}), y});
  auto run = [&](Shape x, Shape y) {
    g.diagnostics.clear();
    std::vector<Tensor> outputs;
    interpret(g.graph, {Tensor(Element::F32, x), Tensor(Element::F32, y)}, outputs, g.diagnostics);
    return g.messages();
  };
  EXPECT_EQ(run({63, 5}, {2}), "");
  EXPECT_CONTAINS(run({64, 5}, {2}), "dimension 0: expected extent ((h * 32) + -1) = 63, found 64");
  EXPECT_CONTAINS(run({63, 9}, {2}), "dimension 1: expected extent (h + w) from 2 to 8, found 9");
}

TEST(Interpreter, RefusesAbsurdSizes) {
  TestGraph g;
  Value *x = g.constant(Tensor::scalar(Element::F32, 1));
  g.finish({g.b.broadcastTo(x, g.dims({int64_t(1) << 20, int64_t(1) << 20}))});
  std::vector<Tensor> outputs;
  EXPECT_FALSE(interpret(g.graph, {}, outputs, g.diagnostics));
  EXPECT_NE(g.messages().find("larger than the interpreter's limit"), std::string::npos)
      << g.messages();
}

} // namespace
} // namespace tenon::test
