// Tests what a graph may look like: order, names, optional operands, initialisers, subgraphs,
// functions.
#include "Support.h"

#include <functional>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

TEST(Structure, NodesMayStandInAnyOrder) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Neg", {"b"}, {"c"});
  m.node("Abs", {"x"}, {"a"});
  m.node("Sqrt", {"a"}, {"b"});
  m.output("c");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({2}, {-4, 9})})[0]), Numbers({-2, -3}));
}

TEST(Structure, SortedFilesKeepTheirOrder) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Abs", {"x"}, {"late"}, "first");
  m.node("Neg", {"x"}, {"early"}, "second");
  m.node("Add", {"early", "late"}, {"y"}, "third");
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i);
  std::vector<std::string> order;
  for (Operation &op : i.graph().body())
    if (!op.loc().empty())
      order.push_back(op.loc().front());
  EXPECT_EQ(order, std::vector<std::string>({"first", "second", "third"}));
}

TEST(Structure, IdsAreStableAndUnique) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Abs", {"x"}, {"a"});
  m.node("Abs", {"a"}, {"b"}, "twin");
  m.node("Abs", {"b"}, {"c"}, "twin");
  m.node("Abs", {"c"}, {"d"});
  m.output("d");
  Imported i(m);
  ASSERT_TRUE(i);
  std::vector<std::string> ids;
  for (Operation *op : i.all(Op::Map))
    ids.push_back(op->loc().front());
  EXPECT_EQ(ids, std::vector<std::string>({"Abs_0", "twin", "twin_2", "Abs_3"}));
}

TEST(Structure, CyclesNameTheirNodesOnly) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Add", {"x", "b"}, {"a"}, "one");
  m.node("Neg", {"a"}, {"b"}, "two");
  m.node("Abs", {"b"}, {"y"}, "behind");
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "cycle: 'one', 'two'"));
  EXPECT_FALSE(mentions(i.messages, "behind"));
}

TEST(Structure, UnknownNamesAreReported) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Add", {"x", "nowhere"}, {"y"}, "sum");
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "node 'sum' (Add): operand 1 'nowhere' is defined nowhere"));
  TestModel n;
  n.input("x", {"2"});
  n.output("y");
  EXPECT_TRUE(mentions(Imported(n).messages, "output 'y' is defined nowhere"));
}

TEST(Structure, ResultsAreDefinedOnce) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Abs", {"x"}, {"y"}, "one");
  m.node("Neg", {"x"}, {"y"}, "two");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "result 'y' is also a result of node 'one'"));
  TestModel n; // not a cycle of one node
  n.input("x", {"2"});
  n.node("Abs", {"x"}, {"x"}, "one");
  n.output("x");
  EXPECT_TRUE(
      mentions(Imported(n).messages,
               "node 'one' (Abs): result 'x' is also an input or initializer of the graph"));
}

TEST(Structure, EmptyNamesAreAbsentOperandsAndUnusedResults) {
  TestModel m;
  m.input("x", {"3"});
  weight(m.graph, "high", {}, 1.5f);
  m.node("Clip", {"x", "", "high"}, {"a"});
  m.node("Dropout", {"a"}, {"b", ""});
  m.node("Dropout", {"b"}, {"c", ""});
  m.output("c");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({3}, {-3, 1, 7})})[0]), Numbers({-3, 1, 1.5}));
}

TEST(Structure, InitialisersAmongTheInputsAreConstants) {
  TestModel m;
  m.input("x", {"2"});
  m.input("w", {"2"});
  weight(m.graph, "w", {2}, 3);
  m.node("Mul", {"x", "w"}, {"y"});
  m.output("y");
  m.output("w");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.graph().inputNames, std::vector<std::string>({"x"}));
  EXPECT_EQ(values(i.run({floats({2}, {1, 2})})[0]), Numbers({3, 6}));
}

TEST(Structure, ScalarsAndEmptyTensors) {
  TestModel m;
  m.input("x", {});
  weight(m.graph, "none", {0}, 0);
  ints(m.graph, "one", {1});
  m.node("Reshape", {"x", "one"}, {"a"});
  set(m.node("Concat", {"a", "none"}, {"y"}), "axis", 0);
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({}, {5})})[0]), Numbers({5}));
}

TEST(Structure, DefaultDomainHasTwoNames) {
  TestModel m;
  m.proto.mutable_opset_import(0)->set_domain("ai.onnx");
  m.input("x", {"2"});
  m.node("Relu", {"x"}, {"y"})->set_domain("ai.onnx");
  m.output("y");
  EXPECT_TRUE(Imported(m));
}

TEST(Structure, NamesMayHoldAnything) {
  TestModel m;
  const std::string odd = "a \"b\"\n*/ \xff\xfe";
  m.input(odd, {"2"});
  m.node("Relu", {odd}, {"y\t"}, odd);
  m.output("y\t");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.graph().inputNames[0], odd);
}

TEST(Structure, ValuesKeepTheirNames) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Relu", {"x"}, {"hidden"});
  m.node("Identity", {"hidden"}, {"alias"});
  m.node("Neg", {"alias"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i);
  std::map<std::string, Value *> names(i.model->names.begin(), i.model->names.end());
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(names["hidden"], names["alias"]);
  EXPECT_EQ(names["hidden"]->hint(), "hidden");
}

//===----------------------------------------------------------------------===//
// Subgraphs
//===----------------------------------------------------------------------===//

/// y = positive ? x + w : x
TestModel conditional() {
  TestModel m;
  m.input("x", {"2"});
  m.input("positive", {}, onnx::TensorProto::BOOL);
  weight(m.graph, "w", {2}, 10);
  m.node("Neg", {"x"}, {"outer"});
  auto *n = m.node("If", {"positive"}, {"y"}, "choice");
  auto &yes = setGraph(n, "then_branch");
  node(yes, "Add", {"x", "w"}, {"sum"});
  yes.add_output()->set_name("sum");
  auto &no = setGraph(n, "else_branch");
  no.add_output()->set_name("outer"); // a value of the outer graph, unchanged
  m.output("y");
  return m;
}

TEST(Subgraph, CapturesBecomeOperands) {
  Imported i(conditional());
  ASSERT_TRUE(i) << i.messages;
  auto ifs = i.all(Op::If);
  ASSERT_EQ(ifs.size(), 1u);
  EXPECT_EQ(ifs[0]->numOperands(), 3u); // condition, x, outer; the weight is repeated inside
  Tensor yes(Element::Bool, {}), no(Element::Bool, {});
  yes.setInt(0, 1);
  EXPECT_EQ(values(i.run({floats({2}, {1, 2}), yes})[0]), Numbers({11, 12}));
  EXPECT_EQ(values(i.run({floats({2}, {1, 2}), no})[0]), Numbers({-1, -2}));
}

TEST(Subgraph, InnerIdsArePaths) {
  Imported i(conditional());
  ASSERT_TRUE(i);
  bool found = false;
  i.all(Op::If)[0]->walk([&](Operation *op) {
    found |= !op->loc().empty() && op->loc().front() == "choice/then_branch/Add_0";
  });
  EXPECT_TRUE(found);
}

TEST(Subgraph, KnownConditionsTakeTheirBranch) {
  TestModel m = conditional();
  m.graph.mutable_input()->DeleteSubrange(1, 1);
  auto *t = m.graph.add_initializer();
  t->set_name("positive");
  t->set_data_type(onnx::TensorProto::BOOL);
  t->add_int32_data(1);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_TRUE(i.all(Op::If).empty());
  EXPECT_EQ(values(i.run({floats({2}, {1, 2})})[0]), Numbers({11, 12}));
}

TEST(Subgraph, InnerNamesShadowOuterOnes) {
  TestModel m = conditional();
  auto &yes = *m.graph.mutable_node(1)->mutable_attribute(0)->mutable_g();
  weight(yes, "w", {2}, 100);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  Tensor condition(Element::Bool, {});
  condition.setInt(0, 1);
  EXPECT_EQ(values(i.run({floats({2}, {1, 2}), condition})[0]), Numbers({101, 102}));
}

TEST(Subgraph, DeepNestingIsAnErrorNotACrash) {
  TestModel m;
  m.input("x", {"2"});
  m.input("c", {}, onnx::TensorProto::BOOL);
  onnx::GraphProto *g = &m.graph;
  for (int depth = 0; depth < 300; ++depth) {
    auto *n = node(*g, "If", {"c"}, {"y" + std::to_string(depth)});
    if (depth)
      g->add_output()->set_name("y" + std::to_string(depth));
    auto &no = setGraph(n, "else_branch");
    no.add_output()->set_name("x");
    g = &setGraph(n, "then_branch");
  }
  g->add_output()->set_name("x");
  m.output("y0");
  Imported i(m);
  EXPECT_FALSE(i);
}

/// Sums `steps` times x, stacking the partial sums.
TestModel counting(bool known) {
  TestModel m;
  m.input("x", {"2"});
  if (known)
    ints(m.graph, "steps", {3}, true);
  else
    m.input("steps", {}, onnx::TensorProto::INT64);
  auto *n = m.node("Loop", {"steps", "", "x"}, {"last", "all"}, "loop");
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  declare(body.add_input(), "sum", {"2"});
  node(body, "Add", {"sum", "x"}, {"next"});
  node(body, "Identity", {"next"}, {"scan"});
  for (const char *name : {"go", "next", "scan"})
    body.add_output()->set_name(name);
  m.output("last");
  m.output("all");
  return m;
}

TEST(Subgraph, LoopsWithAKnownCountHaveExactExtents) {
  Imported i(counting(true));
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType(1)), "tensor<3x2xf32>");
  auto out = i.run({floats({2}, {1, 2})});
  EXPECT_EQ(values(out[0]), Numbers({4, 8}));
  EXPECT_EQ(values(out[1]), Numbers({2, 4, 3, 6, 4, 8}));
}

/// Appends i * x, twice, to a list along its last dimension, adds it to x and stacks the sums;
/// stops when one reaches 4. `more`: adds to the body.
TestModel appending(const std::function<void(onnx::GraphProto &)> &more = {}) {
  TestModel m;
  m.input("x", {"2", "1"});
  m.input("start", {"2", "1"});
  m.input("steps", {}, onnx::TensorProto::INT64);
  auto *n = m.node("Loop", {"steps", "", "start", "x"}, {"list", "last", "sums"}, "loop");
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  declare(body.add_input(), "old", {"2", "columns"});
  declare(body.add_input(), "sum", {"2", "1"});
  set(node(body, "Cast", {"i"}, {"factor"}), "to", int64_t(onnx::TensorProto::FLOAT));
  node(body, "Mul", {"factor", "x"}, {"piece"});
  set(node(body, "Cast", {"old"}, {"cast"}), "to", int64_t(onnx::TensorProto::FLOAT));
  set(node(body, "Concat", {"cast", "piece", "piece"}, {"joined"}), "axis", int64_t(-1));
  node(body, "Identity", {"joined"}, {"longer"});
  node(body, "Add", {"sum", "x"}, {"next"});
  node(body, "Identity", {"next"}, {"scan"});
  set(node(body, "ReduceMax", {"next"}, {"most"}), "keepdims", int64_t(0));
  weight(body, "four", {}, 4);
  node(body, "Less", {"most", "four"}, {"again"});
  if (more)
    more(body);
  for (const char *name : {"again", "longer", "next", "scan"})
    body.add_output()->set_name(name);
  for (const char *name : {"list", "last", "sums"})
    m.output(name);
  return m;
}

TEST(Subgraph, ListsThatALoopAppendsToAreStackedOutside) {
  ImportOptions options;
  options.ranges = {{"steps", {0, 5}}};
  Imported i(appending(), options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.outputType(0).dim(1).upper(), 1 + 5 * 2);
  ASSERT_EQ(i.all(Op::Loop).size(), 1u);
  EXPECT_EQ(i.all(Op::Loop)[0]->intAttr("carried"), 1);
  const Tensor start = floats({2, 1}, {7, 8});
  auto run = [&](double x0, double x1, int64_t steps) {
    return i.run({floats({2, 1}, {x0, x1}), start, Tensor::fromInts({steps}).reshaped({})});
  };
  auto out = run(0.5, 1, 5); // the third sum is 4
  EXPECT_EQ(values(out[0]), Numbers({7, 0, 0, 0.5, 0.5, 1, 1, 8, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(values(out[1]), Numbers({2, 4}));
  EXPECT_EQ(values(out[2]), Numbers({1, 2, 1.5, 3, 2, 4}));
  EXPECT_EQ(values(run(0.5, 1, 2)[0]), Numbers({7, 0, 0, 0.5, 0.5, 8, 0, 0, 1, 1}));
  EXPECT_EQ(values(run(1, 2, 0)[0]), Numbers({7, 8}));
}

/// Loops over the rows of x [N, 2]: gives row i lengths[i] times, appended to a list or stacked.
TestModel ragged(bool list) {
  TestModel m;
  m.input("x", {"N", "2"});
  m.input("lengths", {"N"}, onnx::TensorProto::INT64);
  ints(m.graph, "zero", {0}, /*scalar=*/true);
  ints(m.graph, "first", {0});
  ints(m.graph, "two", {2});
  weight(m.graph, "none", {0, 2}, 0);
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"count"});
  auto *n = list ? m.node("Loop", {"count", "", "none"}, {"y"}, "loop")
                 : m.node("Loop", {"count", ""}, {"y"}, "loop");
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  if (list)
    declare(body.add_input(), "old", {"rows", "2"});
  node(body, "Gather", {"x", "i"}, {"row"});
  node(body, "Gather", {"lengths", "i"}, {"length"});
  node(body, "Unsqueeze", {"length", "first"}, {"times"});
  set(node(body, "Concat", {"times", "two"}, {"wanted"}), "axis", int64_t(0));
  node(body, "Expand", {"row", "wanted"}, {"rows"});
  if (list)
    set(node(body, "Concat", {"old", "rows"}, {"new"}), "axis", int64_t(0));
  node(body, "Identity", {"go"}, {"again"});
  for (const char *name : {"again", list ? "new" : "rows"})
    body.add_output()->set_name(name);
  m.output("y");
  return m;
}

TEST(Subgraph, PiecesOfALoopMayDifferInExtent) {
  ImportOptions options;
  options.ranges = {{"N", {1, 5}}, {"lengths", {0, 4}}};
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  Imported lists(ragged(true), options);
  ASSERT_TRUE(lists) << lists.messages;
  EXPECT_EQ(values(lists.run({x, Tensor::fromInts({1, 0, 2})})[0]), Numbers({1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(values(lists.run({x, Tensor::fromInts({0, 4, 0})})[0]),
            Numbers({3, 4, 3, 4, 3, 4, 3, 4}));
  // Stacked pieces have one extent: the others end in zeros.
  Imported stacks(ragged(false), options);
  ASSERT_TRUE(stacks) << stacks.messages;
  EXPECT_EQ(values(stacks.run({x, Tensor::fromInts({1, 1, 1})})[0]), Numbers({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(stacks.run({x, Tensor::fromInts({1, 2, 0})})[0]),
            Numbers({1, 2, 0, 0, 3, 4, 3, 4, 0, 0, 0, 0}));
}

TEST(Subgraph, TripsThatDataBoundNeedNoRange) {
  // ceil(N / 4.0) iterations, as range(0, n, 4) of scripted PyTorch.
  TestModel m;
  m.input("x", {"N"});
  ints(m.graph, "zero", {0}, /*scalar=*/true);
  weight(m.graph, "four", {}, 4);
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"length"});
  set(m.node("Cast", {"length"}, {"real"}), "to", int64_t(onnx::TensorProto::FLOAT));
  m.node("Div", {"real", "four"}, {"quotient"});
  m.node("Ceil", {"quotient"}, {"up"});
  set(m.node("Cast", {"up"}, {"trips"}), "to", int64_t(onnx::TensorProto::INT64));
  auto *n = m.node("Loop", {"trips", ""}, {"y"}, "loop");
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  node(body, "Gather", {"x", "i"}, {"element"});
  node(body, "Identity", {"go"}, {"again"});
  for (const char *name : {"again", "element"})
    body.add_output()->set_name(name);
  m.output("y");
  ImportOptions options;
  options.ranges = {{"N", {1, 9}}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({5}, {1, 2, 3, 4, 5})})[0]), Numbers({1, 2}));
  EXPECT_EQ(values(i.run({floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})})[0]), Numbers({1, 2}));
  EXPECT_EQ(values(i.run({floats({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9})})[0]), Numbers({1, 2, 3}));
}

TEST(Subgraph, ListsThatABodyReadsStayCarried) {
  ImportOptions options;
  options.ranges = {{"steps", {0, 5}}};
  const char *const carried =
      "the trip count of a loop that carries a value, 'start', that starts as tensor<2x1xf32> and "
      "becomes tensor<2x3xf32>, has to be known";
  // The list before it grows, and after.
  for (const char *read : {"old", "longer"}) {
    const TestModel m =
        appending([&](onnx::GraphProto &body) { node(body, "Relu", {read}, {"other"}); });
    EXPECT_TRUE(mentions(Imported(m, options).messages, carried)) << read;
  }
  const TestModel captured = appending([](onnx::GraphProto &body) {
    auto *branch = node(body, "If", {"again"}, {"chosen"});
    for (const char *name : {"then_branch", "else_branch"}) {
      auto &inner = setGraph(branch, name);
      node(inner, "ReduceMax", {"old"}, {"greatest"});
      inner.add_output()->set_name("greatest");
    }
  });
  EXPECT_TRUE(mentions(Imported(captured, options).messages, carried));
}

TEST(Subgraph, ConditionsMayHaveARank) {
  TestModel m;
  m.input("x", {"2"});
  ints(m.graph, "steps", {3}, true);
  auto *n = m.node("Loop", {"steps", "", "x"}, {"last"}, "loop");
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  declare(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  declare(body.add_input(), "sum", {"2"});
  ints(body, "one", {1});
  node(body, "Less", {"i", "one"}, {"again"}); // [1]
  node(body, "Add", {"sum", "x"}, {"next"});
  for (const char *name : {"again", "next"})
    body.add_output()->set_name(name);
  m.output("last");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({2}, {1, 2})})[0]), Numbers({3, 6})); // two trips
}

TEST(Subgraph, StackedResultsNeedABound) {
  Imported open(counting(false));
  EXPECT_TRUE(mentions(open.messages, "say how many there are at most with --range steps=0..100"));
  ImportOptions options;
  options.ranges["steps"] = {0, 8};
  Imported i(counting(false), options);
  ASSERT_TRUE(i) << i.messages;
  ASSERT_EQ(i.model->module->symbols.size(), 1u);
  EXPECT_EQ(i.model->module->symbols[0].upper(), 8);
  Tensor steps(Element::I64, {});
  steps.setInt(0, 2);
  EXPECT_EQ(values(i.run({floats({2}, {1, 2}), steps})[1]), Numbers({2, 4, 3, 6}));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

TEST(Function, AttributesReachTheBody) {
  TestModel m;
  m.proto.add_opset_import()->set_domain("local");
  auto *f = m.proto.add_functions();
  f->set_domain("local");
  f->set_name("Slope");
  f->add_input("x");
  f->add_output("y");
  auto *fallback = f->add_attribute_proto();
  fallback->set_name("slope");
  fallback->set_type(onnx::AttributeProto::FLOAT);
  fallback->set_f(0.5f);
  auto *inner = f->add_node();
  inner->set_op_type("LeakyRelu");
  inner->add_input("x");
  inner->add_output("y");
  auto *a = attribute(inner, "alpha");
  a->set_ref_attr_name("slope");
  a->set_type(onnx::AttributeProto::FLOAT);
  m.input("x", {"1"});
  auto *given = m.node("Slope", {"x"}, {"a"}, "call");
  given->set_domain("local");
  auto *slope = attribute(given, "slope");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_f(0.25f);
  m.node("Slope", {"a"}, {"y"})->set_domain("local");
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({1}, {-8})})[0]), Numbers({-1}));
  EXPECT_EQ(i.all(Op::Map)[0]->loc().front(), "call/LeakyRelu_0");
}

TEST(Function, RecursionIsAnError) {
  TestModel m;
  auto *f = m.proto.add_functions();
  f->set_domain("local");
  f->set_name("Self");
  f->add_input("x");
  f->add_output("y");
  auto *inner = f->add_node();
  inner->set_op_type("Self");
  inner->set_domain("local");
  inner->add_input("x");
  inner->add_output("y");
  m.input("x", {"1"});
  m.node("Self", {"x"}, {"y"})->set_domain("local");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "functions that do not call themselves"));
}

} // namespace
