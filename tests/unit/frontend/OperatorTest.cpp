// Tests the operator table and what differs between opsets; the numbers of single operators are
// the conformance run's business.
#include "Support.h"

#include "frontend/onnx/Table.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

TEST(Operators, TableIsSortedAndHasNoOverlaps) {
  auto table = frontend::operatorTable();
  for (size_t i = 1; i < table.size(); ++i) {
    auto before = std::make_pair(table[i - 1].domain, table[i - 1].name);
    auto here = std::make_pair(table[i].domain, table[i].name);
    EXPECT_TRUE(before < here || (before == here && table[i - 1].until < table[i].since))
        << here.second.str();
    EXPECT_LE(table[i].since, table[i].until) << here.second.str();
    EXPECT_EQ(frontend::findOperator(table[i].domain, table[i].name, table[i].since), &table[i]);
  }
  EXPECT_EQ(frontend::findOperator("", "Frobnicate", 17), nullptr);
  EXPECT_EQ(frontend::findOperator("", "Upsample", 10), nullptr);
}

TEST(Operators, SoftmaxFlattensBeforeOpset13) {
  for (int64_t opset : {11, 13}) {
    TestModel m(opset);
    m.input("x", {"2", "2", "2"});
    set(m.node("Softmax", {"x"}, {"y"}), "axis", 1);
    m.output("y");
    Imported i(m);
    ASSERT_TRUE(i) << i.messages;
    Tensor y = i.run({floats({2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 0})})[0];
    EXPECT_DOUBLE_EQ(y.at(0), opset == 11 ? 0.25 : 0.5);
  }
}

TEST(Operators, AxesMovedFromAttributesToOperands) {
  TestModel attributes(11);
  attributes.input("x", {"2", "1", "3"});
  set(attributes.node("Squeeze", {"x"}, {"y"}), "axes", std::vector<int64_t>{1});
  attributes.output("y");
  Imported a(attributes);
  ASSERT_TRUE(a) << a.messages;
  EXPECT_EQ(toString(a.outputType()), "tensor<2x3xf32>");
  TestModel operands(13);
  operands.input("x", {"2", "1", "3"});
  ints(operands.graph, "axes", {-2});
  operands.node("Squeeze", {"x", "axes"}, {"y"});
  operands.output("y");
  Imported o(operands);
  ASSERT_TRUE(o) << o.messages;
  EXPECT_EQ(toString(o.outputType()), "tensor<2x3xf32>");
}

TEST(Operators, ReduceOverNothing) {
  TestModel m(18);
  m.input("x", {"2", "2"});
  auto *n = m.node("ReduceSum", {"x"}, {"same"});
  set(n, "noop_with_empty_axes", 1);
  set(m.node("ReduceSum", {"x"}, {"all"}), "keepdims", 0);
  m.output("same");
  m.output("all");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  auto out = i.run({floats({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values(out[0]), Numbers({1, 2, 3, 4}));
  EXPECT_EQ(values(out[1]), Numbers({10}));
}

TEST(Operators, SliceBackwardsAndBeyond) {
  TestModel m;
  m.input("x", {"5"});
  ints(m.graph, "starts", {-1});
  ints(m.graph, "ends", {INT64_MIN});
  ints(m.graph, "axes", {0});
  ints(m.graph, "steps", {-2});
  m.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({5}, {0, 1, 2, 3, 4})})[0]), Numbers({4, 2, 0}));
}

TEST(Operators, NegativePadsCut) {
  TestModel m;
  m.input("x", {"4"});
  ints(m.graph, "pads", {-1, 2});
  m.node("Pad", {"x", "pads"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({4}, {1, 2, 3, 4})})[0]), Numbers({2, 3, 4, 0, 0}));
}

TEST(Operators, OpenExtentsDecideWhetherPadsCut) {
  // The window around the middle of a table of relative positions, as long as twice the text.
  TestModel m;
  m.input("table", {"5"});
  m.input("text", {"T"});
  ints(m.graph, "three", {3});
  m.node("Shape", {"text"}, {"length"});
  m.node("Sub", {"length", "three"}, {"more"});
  set(m.node("Concat", {"more", "more"}, {"pads"}), "axis", 0);
  m.node("Pad", {"table", "pads"}, {"y"});
  m.output("y");
  ImportOptions open;
  open.ranges = {{"T", {1, 5}}};
  Imported i(m, open);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{((T * 2) + -1)}xf32>");
  const Tensor table = floats({5}, {1, 2, 3, 4, 5});
  auto around = [&](int64_t length) {
    return values(i.run({table, floats({length}, Numbers(size_t(length)))})[0]);
  };
  EXPECT_EQ(around(1), Numbers({3}));
  EXPECT_EQ(around(3), Numbers({1, 2, 3, 4, 5}));
  EXPECT_EQ(around(5), Numbers({0, 0, 1, 2, 3, 4, 5, 0, 0}));
}

TEST(Operators, NoMoreThanThereAreAreTheLargest) {
  TestModel m;
  m.input("x", {"N"});
  ints(m.graph, "k", {3});
  m.node("TopK", {"x", "k"}, {"y", "at"});
  m.output("y");
  ImportOptions open;
  open.ranges = {{"N", {1, 5}}};
  Imported i(m, open);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({2}, {1, 2})})[0]), Numbers({2, 1}));
  EXPECT_EQ(values(i.run({floats({4}, {1, 2, 4, 3})})[0]), Numbers({4, 3, 2}));
  open.ranges = {{"N", {3, 5}}};
  EXPECT_EQ(toString(Imported(m, open).outputType()), "tensor<3xf32>");
}

TEST(Operators, SameLowerPadsAtTheBegin) {
  for (const char *rule : {"SAME_UPPER", "SAME_LOWER"}) {
    TestModel m;
    m.input("x", {"1", "1", "4"});
    weight(m.graph, "w", {1, 1, 2}, 1);
    set(m.node("Conv", {"x", "w"}, {"y"}), "auto_pad", rule);
    m.output("y");
    Imported i(m);
    ASSERT_TRUE(i) << i.messages;
    const bool upper = std::string(rule) == "SAME_UPPER";
    EXPECT_EQ(values(i.run({floats({1, 1, 4}, {1, 2, 3, 4})})[0]),
              upper ? Numbers({3, 5, 7, 4}) : Numbers({1, 3, 5, 7}));
  }
}

TEST(Operators, ReshapeWithSymbolsCancels) {
  TestModel m;
  m.input("x", {"N", "T", "6"});
  ints(m.graph, "shape", {0, -1, 3});
  m.node("Reshape", {"x", "shape"}, {"y"});
  m.output("y");
  ImportOptions options;
  options.ranges = {{"N", {1, 4}}, {"T", {1, 9}}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{N}x{(T * 2)}x3xf32>");
}

TEST(Operators, BiasIsAMapBehindTheConvolution) {
  TestModel m;
  m.input("x", {"1", "1", "2", "2"});
  weight(m.graph, "w", {2, 1, 1, 1}, 2);
  weight(m.graph, "b", {2}, 0.5f);
  m.node("Conv", {"x", "w", "b"}, {"y"});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  ASSERT_EQ(i.all(Op::Conv).size(), 1u);
  EXPECT_EQ(i.all(Op::Conv)[0]->numOperands(), 2u);
  EXPECT_EQ(i.all(Op::Map).size(), 1u);
}

TEST(Operators, QuantisationIsOneScalarFunction) {
  TestModel m;
  m.input("x", {"2", "2"});
  weight(m.graph, "scale", {2}, 0.5f);
  auto *z = m.graph.add_initializer();
  z->set_name("zero");
  z->set_data_type(onnx::TensorProto::INT8);
  z->add_dims(2);
  z->add_int32_data(0);
  z->add_int32_data(10);
  set(m.node("QuantizeLinear", {"x", "scale", "zero"}, {"q"}), "axis", 1);
  set(m.node("DequantizeLinear", {"q", "scale", "zero"}, {"y"}), "axis", 1);
  m.output("q");
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.all(Op::Map).size(), 2u);
  auto out = i.run({floats({2, 2}, {0.25, 0.75, 100, -100})});
  EXPECT_EQ(values(out[0]), Numbers({0, 12, 127, -128})); // half to even, saturated
  EXPECT_EQ(values(out[1]), Numbers({0, 1, 63.5, -69}));
}

TEST(Operators, CastToPowersOfTwoRoundsAsAsked) {
  // As the table and the modes of Cast's documentation say; what is below the least power is none
  // where it does not saturate.
  const double least = 0x1p-127, most = 0x1p127, none = NAN;
  const std::vector<double> x = {1,           1.4,         1.5,  3, least / 8, least,
                                 1.2 * least, 1.5 * least, 3e38, 0, INFINITY,  NAN};
  auto cast = [&](const std::string &mode, bool saturate) {
    TestModel m(25);
    m.input("x", {"12"});
    auto *n = m.node("Cast", {"x"}, {"q"});
    set(n, "to", onnx::TensorProto::FLOAT8E8M0);
    set(n, "round_mode", mode);
    set(n, "saturate", saturate);
    m.output("q");
    Imported i(m);
    EXPECT_TRUE(i) << i.messages;
    return i ? values(i.run({floats({12}, x)})[0]) : Numbers();
  };
  auto expect = [&](const std::string &mode, bool saturate, const Numbers &expected) {
    const Numbers found = cast(mode, saturate);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k)
      EXPECT_TRUE(found[k] == expected[k] || (std::isnan(found[k]) && std::isnan(expected[k])))
          << mode << ", saturate " << saturate << ": " << x[k] << " becomes " << found[k];
  };
  const double up = 2 * least;
  expect("up", true, {1, 2, 2, 4, least, least, up, up, most, least, most, none});
  expect("up", false, {1, 2, 2, 4, none, least, up, up, none, none, none, none});
  expect("down", true, {1, 1, 1, 2, least, least, least, least, most, least, most, none});
  expect("down", false, {1, 1, 1, 2, none, least, least, least, most, none, none, none});
  expect("nearest", true, {1, 1, 2, 4, least, least, least, up, most, least, most, none});
  expect("nearest", false, {1, 1, 2, 4, none, least, least, up, none, none, none, none});
}

TEST(Operators, ScanWalksItsOperand) {
  // Running sum, backwards over the second operand.
  TestModel m;
  m.input("start", {"2"});
  m.input("x", {"3", "2"});
  auto *n = m.node("Scan", {"start", "x"}, {"last", "sums"});
  set(n, "num_scan_inputs", 1);
  set(n, "scan_input_directions", std::vector<int64_t>{1});
  auto &body = setGraph(n, "body");
  declare(body.add_input(), "sum", {"2"});
  declare(body.add_input(), "row", {"2"});
  node(body, "Add", {"sum", "row"}, {"next"});
  body.add_output()->set_name("next");
  body.add_output()->set_name("next");
  m.output("last");
  m.output("sums");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  auto out = i.run({floats({2}, {0, 1}), floats({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(values(out[0]), Numbers({9, 13}));
  EXPECT_EQ(values(out[1]), Numbers({5, 7, 8, 11, 9, 13}));
}

TEST(Operators, BatchStatisticsMoveTheRunningOnes) {
  TestModel m(15);
  m.input("x", {"2", "1", "2"});
  for (const char *name : {"scale", "mean"})
    weight(m.graph, name, {1}, 1);
  for (const char *name : {"bias", "variance"})
    weight(m.graph, name, {1}, 0);
  auto *n = m.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"},
                   {"y", "moved_mean", "moved_variance"});
  set(n, "training_mode", 1);
  setFloat(n, "momentum", 0.75f);
  setFloat(n, "epsilon", 0);
  for (const char *name : {"y", "moved_mean", "moved_variance"})
    m.output(name);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  auto out = i.run({floats({2, 1, 2}, {1, 1, 5, 5})}); // mean 3, variance 4
  EXPECT_EQ(values(out[0]), Numbers({-1, -1, 1, 1}));
  EXPECT_EQ(values(out[1]), Numbers({1.5}));
  EXPECT_EQ(values(out[2]), Numbers({1}));
}

TEST(Operators, StatisticsOfEachElement) {
  for (bool perElement : {true, false}) { // the latter says one per channel, which is refused
    TestModel m(8);
    m.input("x", {"2", "1", "2"});
    for (const char *name : {"scale", "bias", "mean", "variance"})
      m.input(name,
              perElement ? std::vector<std::string>{"1", "2"} : std::vector<std::string>{"1"});
    auto *n = m.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y"}, "bn");
    set(n, "spatial", 0);
    setFloat(n, "epsilon", 0);
    m.output("y");
    Imported i(m);
    ASSERT_EQ(bool(i), perElement) << i.messages;
    if (!perElement) {
      EXPECT_NE(i.messages.find("expected one number per element of an example"), std::string::npos)
          << i.messages;
      continue;
    }
    auto out = i.run({floats({2, 1, 2}, {1, 2, 5, 6}), floats({1, 2}, {1, 3}),
                      floats({1, 2}, {0, 1}), floats({1, 2}, {1, 2}), floats({1, 2}, {1, 4})});
    EXPECT_EQ(values(out[0]), Numbers({0, 1, 4, 7}));
  }
}

TEST(Operators, CastBeyondTheLargestNumberIsNoneWithoutSaturation) {
  TestModel m(19);
  m.input("x", {"3"});
  auto *n = m.node("Cast", {"x"}, {"narrow"});
  set(n, "to", int64_t(onnx::TensorProto::FLOAT8E4M3FN));
  set(n, "saturate", 0);
  set(m.node("Cast", {"narrow"}, {"y"}), "to", int64_t(onnx::TensorProto::FLOAT));
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  const Tensor y = i.run({floats({3}, {464, 465, -INFINITY})})[0]; // 464 is a tie, and 448 even
  EXPECT_EQ(y.at(0), 448);
  EXPECT_TRUE(std::isnan(y.at(1)));
  EXPECT_TRUE(std::isnan(y.at(2)));
}

TEST(Operators, CompressKeepsWhatTheConditionMentions) {
  for (const char *extent : {"2", "4"}) {
    TestModel m;
    m.input("x", {"3"});
    m.input("condition", {extent}, onnx::TensorProto::BOOL);
    m.node("Compress", {"x", "condition"}, {"y"}, "kept");
    m.output("y");
    Imported i(m);
    if (extent[0] == '4') {
      EXPECT_TRUE(mentions(i.messages, "at most one boolean per element"));
      continue;
    }
    ASSERT_TRUE(i) << i.messages;
    EXPECT_EQ(toString(i.outputType()), "tensor<{kept_count}xf32>");
    Tensor condition(Element::Bool, {2});
    condition.setInt(1, 1);
    EXPECT_EQ(values(i.run({floats({3}, {1, 2, 3}), condition})[0]), Numbers({2}));
  }
}

TEST(Operators, OptionalValuesAreTensorsOrLeftOut) {
  TestModel m(18);
  m.input("x", {"1"});
  m.node("OptionalHasElement", {"x"}, {"there"});
  m.node("OptionalHasElement", {""}, {"missing"});
  m.node("OptionalGetElement", {"x"}, {"y"});
  for (const char *name : {"there", "missing", "y"})
    m.output(name);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  auto out = i.run({floats({1}, {3})});
  EXPECT_EQ(values(out[0]), Numbers({1}));
  EXPECT_EQ(values(out[1]), Numbers({0}));
  EXPECT_EQ(values(out[2]), Numbers({3}));
}

TEST(Operators, EinsumAsProductAndAsReduction) {
  for (const char *equation : {"bij,bjk->bik", "bij , bjk", "bij,bij->", "bii->bi"}) {
    TestModel m;
    m.input("x", {"1", "2", "2"});
    m.input("y", {"1", "2", "2"});
    const bool one = std::string(equation) == "bii->bi";
    auto *n = one ? m.node("Einsum", {"x"}, {"z"}) : m.node("Einsum", {"x", "y"}, {"z"});
    set(n, "equation", equation);
    m.output("z");
    Imported i(m);
    ASSERT_TRUE(i) << equation << ": " << i.messages;
    Tensor x = floats({1, 2, 2}, {1, 2, 3, 4}), y = floats({1, 2, 2}, {5, 6, 7, 8});
    const Numbers expected = one                                    ? Numbers({1, 4})
                             : std::string(equation) == "bij,bij->" ? Numbers({70})
                                                                    : Numbers({19, 22, 43, 50});
    EXPECT_EQ(values(i.run({x, y})[0]), expected) << equation;
  }
}

} // namespace
