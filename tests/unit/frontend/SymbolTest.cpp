// Tests symbolic dimensions, options and declared types.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

TestModel dynamic() {
  TestModel m;
  m.input("x", {"batch size", "", "4"});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  return m;
}

TEST(Symbol, OpenOnesAreAllListedWithTheRemedy) {
  Imported i(dynamic());
  EXPECT_TRUE(mentions(i.messages, "'batch size', 'x.d1'"));
  EXPECT_TRUE(mentions(i.messages, "--bind batch size=1,x.d1=1"));
}

TEST(Symbol, BindGivesValues) {
  ImportOptions options;
  options.bindDims = {{"batch size", 2}, {"x.d1", 3}};
  Imported i(dynamic(), options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<2x3x4xf32>");
  EXPECT_TRUE(i.model->module->symbols.empty());
}

TEST(Symbol, SanitisedNamesBindToo) {
  ImportOptions options;
  options.bindDims = {{"batch_size", 2}, {"x.d1", 3}};
  EXPECT_TRUE(Imported(dynamic(), options));
}

TEST(Symbol, RangesKeepThem) {
  ImportOptions options;
  options.ranges = {{"batch_size", {1, 4}}, {"x.d1", {3, 3}}};
  Imported i(dynamic(), options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{batch_size}x3x4xf32>");
  ASSERT_EQ(i.model->module->symbols.size(), 1u);
  EXPECT_EQ(i.model->module->symbols[0].lower(), 1);
  EXPECT_EQ(i.model->module->symbols[0].upper(), 4);
}

TEST(Symbol, ExtentsFollowFromOthers) {
  TestModel m;
  m.input("past", {"past len", "4"});
  m.input("mask", {"2*past len + 1", "4"});
  m.input("whole", {"total", "4"});
  m.node("Add", {"mask", "whole"}, {"y"});
  m.output("y");
  ImportOptions options;
  options.ranges = {{"past len", {0, 7}}};
  options.bindExtents = {{"total", "past len+past len+1"}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{((past_len * 2) + 1)}x4xf32>");
  // A name that is no sum of names with values stays open.
  options.bindExtents.clear();
  EXPECT_TRUE(mentions(Imported(m, options).messages, "have no value: 'total'"));
  options.bindExtents = {{"total", "total"}};
  EXPECT_TRUE(mentions(Imported(m, options).messages, "is bound to itself"));
}

// Names longer than what a string keeps within itself, and more terms than a SmallVector does.
TEST(Symbol, ExtentsOfLongNamesFollowFromOthers) {
  TestModel m;
  m.input("past", {"past_sequence_length", "4"});
  m.input("mask", {"total_sequence_length", "4"});
  m.input("whole", {"past_sequence_length + sequence_length_of_the_call", "4"});
  m.node("Add", {"mask", "whole"}, {"y"});
  m.output("y");
  ImportOptions options;
  options.ranges = {{"past_sequence_length", {0, 7}}};
  options.bindDims = {{"sequence_length_of_the_call", 5}};
  options.bindExtents = {{"total_sequence_length", "past_sequence_length+1+1+1+1+1"}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{(past_sequence_length + 5)}x4xf32>");
  options.ranges.clear();
  EXPECT_TRUE(mentions(Imported(m, options).messages,
                       "has no value: bind 'past_sequence_length' or keep it within bounds"));
}

TEST(Symbol, ShapesFixSymbolsEverywhere) {
  TestModel m;
  m.input("x", {"N", "4"});
  m.input("y", {"N", "1"});
  m.node("Add", {"x", "y"}, {"z"});
  m.output("z");
  ImportOptions options;
  options.shapes["x"] = {"5", "4"};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.graph().body().argument(1)->type()), "tensor<5x1xf32>");
  options.bindDims["N"] = 6;
  EXPECT_TRUE(mentions(Imported(m, options).messages, "'N' is bound to 6"));
}

TEST(Symbol, UnknownOptionsAreErrors) {
  ImportOptions options;
  options.bindDims = {{"batch size", 2}, {"x.d1", 3}, {"sequence", 7}};
  EXPECT_TRUE(mentions(Imported(dynamic(), options).messages, "--bind names 'sequence'"));
  options.bindDims.erase("sequence");
  options.shapes["z"] = {"1"};
  EXPECT_TRUE(mentions(Imported(dynamic(), options).messages, "--shape names 'z'"));
}

TEST(Symbol, DataBinds) {
  Diagnostics diagnostics;
  auto model = OnnxModel::parse(dynamic().bytes(), "", diagnostics);
  ASSERT_TRUE(model);
  ImportOptions options;
  EXPECT_TRUE(model->bindFromData({Tensor(Element::F32, {2, 3, 4})}, options, diagnostics));
  EXPECT_EQ(options.bindDims["batch size"], 2);
  EXPECT_EQ(options.bindDims["x.d1"], 3);
  EXPECT_FALSE(model->bindFromData({Tensor(Element::F32, {9, 3, 4})}, options, diagnostics));
  ImportOptions ranged;
  ranged.ranges["batch size"] = {1, 4};
  EXPECT_TRUE(model->bindFromData({Tensor(Element::F32, {2, 3, 4})}, ranged, diagnostics));
  EXPECT_FALSE(ranged.bindDims.count("batch size"));
}

TEST(Symbol, InputsBecomeConstants) {
  TestModel m;
  m.input("x", {"6"});
  m.input("shape", {"2"}, onnx::TensorProto::INT64);
  m.node("Reshape", {"x", "shape"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "--bind NAME=@FILE"));
  ImportOptions options;
  options.constants["shape"] = Tensor::fromInts({2, -1});
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<2x3xf32>");
  EXPECT_EQ(i.graph().inputNames.size(), 1u);
  options.constants["shape"] = Tensor::fromInts({1, 2, 3});
  EXPECT_TRUE(mentions(Imported(m, options).messages, "has extent 3 at dimension 0, expected 2"));
}

TEST(Symbol, DeclaredTypesAreComparedNotTrusted) {
  TestModel m;
  m.input("x", {"2", "3"});
  set(m.node("Transpose", {"x"}, {"y"}), "perm", std::vector<int64_t>{1, 0});
  declare(m.graph.add_output(), "y", {"2", "3"});
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<3x2xf32>");
  EXPECT_TRUE(mentions(i.messages, "warning: the model declares another shape for 'y'"));
}

TEST(Symbol, ShapeArithmeticIsKnown) {
  // Shape → Gather → Concat → Reshape, as exporters write it.
  TestModel m;
  m.input("x", {"N", "6"});
  ints(m.graph, "zero", {0}, true);
  ints(m.graph, "axes", {0});
  ints(m.graph, "rest", {2, -1});
  m.node("Shape", {"x"}, {"s"});
  m.node("Gather", {"s", "zero"}, {"n"});
  m.node("Unsqueeze", {"n", "axes"}, {"u"});
  set(m.node("Concat", {"u", "rest"}, {"c"}), "axis", 0);
  m.node("Reshape", {"x", "c"}, {"y"});
  m.output("y");
  ImportOptions options;
  options.ranges["N"] = {1, 4};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<{N}x2x3xf32>");
}

TEST(Symbol, States) {
  TestModel m;
  m.input("frame", {"1", "2"});
  m.input("cache", {"1", "T"});
  set(m.node("Concat", {"cache", "frame"}, {"grown"}), "axis", 1);
  m.output("grown");
  ImportOptions options;
  options.ranges["T"] = {0, 16};
  options.states.push_back({"cache", "grown", 1});
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  ASSERT_EQ(i.graph().states.size(), 1u);
  EXPECT_EQ(i.graph().states[0].input, 1u);
  EXPECT_EQ(i.graph().states[0].appendAxis, 1);
  options.states[0].appendAxis = llvm::None;
  EXPECT_TRUE(mentions(Imported(m, options).messages, "cannot become the next"));
  options.states[0].output = "other";
  EXPECT_TRUE(mentions(Imported(m, options).messages, "no output 'other'"));
}

TEST(Symbol, FactsSayWhereItCameFrom) {
  TestModel m = dynamic();
  m.proto.set_producer_name("maker");
  ImportOptions options;
  options.bindDims = {{"batch size", 2}, {"x.d1", 3}};
  Imported i(m, options);
  ASSERT_TRUE(i);
  auto &facts = i.model->module->facts;
  EXPECT_EQ(facts["opset"], "17");
  EXPECT_EQ(facts["nodes"], "1");
  EXPECT_EQ(facts["producer"], "maker");
  EXPECT_EQ(facts["sha256"].size(), 64u);
}

/// x[place : place + 1], the place computed from `n` in as many steps that read the last value
/// twice.
TestModel placed(int steps) {
  TestModel m;
  m.input("x", {"rows"});
  m.input("n", {"1"}, onnx::TensorProto::INT64);
  std::string last = "n";
  for (int i = 0; i < steps; ++i) {
    const std::string next = "place" + std::to_string(i);
    m.node("Max", {last, last}, {next});
    last = next;
  }
  m.node("Sign", {"one_more"}, {"one"});
  m.node("Shape", {"one_row"}, {"one_more"});
  m.input("one_row", {"1"});
  m.node("Add", {last, "one"}, {"end"});
  m.node("Slice", {"x", last, "end"}, {"y"});
  m.output("y");
  return m;
}

TEST(Symbol, NumbersThatDecideExtentsAreTracedOnce) {
  ImportOptions options;
  options.bindDims = {{"rows", 8}};
  options.ranges = {{"n", {2, 5}}};
  Imported i(placed(60), options); // as a tree these are 2^60 values
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<1xf32>");
  EXPECT_EQ(i.model->module->symbols.size(), 1u);
}

TEST(Symbol, SlicesMayBeginAndEndOnEitherSideOfZero) {
  for (int64_t step : {1, 2, -1}) {
    TestModel m;
    m.input("x", {"4"});
    m.input("from", {"1"}, onnx::TensorProto::INT64);
    m.input("to", {"1"}, onnx::TensorProto::INT64);
    ints(m.graph, "axis", {0});
    ints(m.graph, "step", {step});
    m.node("Slice", {"x", "from", "to", "axis", "step"}, {"y"});
    m.output("y");
    ImportOptions open;
    open.ranges = {{"from", {-6, 6}}, {"to", {-6, 6}}};
    Imported dynamic(m, open);
    ASSERT_TRUE(dynamic) << dynamic.messages;
    EXPECT_LE(dynamic.outputType().dim(0).upper(), 4);
    const Tensor x = floats({4}, {1, 2, 3, 4});
    for (int64_t from = -6; from <= 6; ++from)
      for (int64_t to = -6; to <= 6; ++to) {
        ImportOptions known;
        known.constants = {{"from", Tensor::fromInts({from})}, {"to", Tensor::fromInts({to})}};
        const auto expected = values(Imported(m, known).run({x})[0]);
        EXPECT_EQ(values(dynamic.run({x, Tensor::fromInts({from}), Tensor::fromInts({to})})[0]),
                  expected)
            << from << " " << to << " " << step;
      }
  }
}

TEST(Symbol, PiecesWhoseExtentsDataDecideFitTheOthers) {
  // ONNX demands that n is 2 here, which is known at run time only.
  TestModel m;
  m.input("x", {"3", "1"});
  m.input("y", {"2", "1"});
  m.input("n", {"1"}, onnx::TensorProto::INT64);
  ints(m.graph, "zero", {0});
  m.node("Slice", {"x", "zero", "n"}, {"head"});
  set(m.node("Concat", {"head", "y"}, {"joined"}), "axis", int64_t(1));
  m.output("joined");
  ImportOptions options;
  options.ranges = {{"n", {1, 3}}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<2x2xf32>");
  const Tensor x = floats({3, 1}, {1, 2, 3}), y = floats({2, 1}, {8, 9});
  EXPECT_EQ(values(i.run({x, y, Tensor::fromInts({2})})[0]), std::vector<double>({1, 8, 2, 9}));
  EXPECT_EQ(values(i.run({x, y, Tensor::fromInts({1})})[0]), std::vector<double>({1, 8, 0, 9}));
  EXPECT_EQ(values(i.run({x, y, Tensor::fromInts({3})})[0]), std::vector<double>({1, 8, 2, 9}));
}

TEST(Symbol, PiecesOfOtherDeclaredExtentsDoNotFit) {
  TestModel m;
  m.input("x", {"N", "1"});
  m.input("y", {"2", "1"});
  set(m.node("Concat", {"x", "y"}, {"joined"}), "axis", int64_t(1));
  m.output("joined");
  ImportOptions options;
  options.ranges = {{"N", {1, 3}}};
  EXPECT_TRUE(mentions(Imported(m, options).messages, "dimension 0: expected extent N, found 2"));
}

TEST(Symbol, RangesOfDimensionsBoundNoResults) {
  TestModel m = placed(1);
  m.node("ConstantOfShape", {"place0"}, {"filled"});
  m.output("filled");
  ImportOptions options;
  options.bindDims = {{"rows", 8}};
  options.ranges = {{"place0", {0, 3}}};
  EXPECT_TRUE(Imported(m, options)) << Imported(m, options).messages;
  m.input("z", {"place0"}); // now it is the name of a dimension
  EXPECT_TRUE(
      mentions(Imported(m, options).messages, "the value 'n' of type tensor<1xi64> has no bounds"));
}

using Numbers = std::vector<double>;

/// The elements of `of` where the input `mask` is above zero, as `id`.
void addSelection(TestModel &m, const std::string &of, const std::string &id) {
  m.node("Greater", {"mask", "zero"}, {id + "_is"});
  m.node("NonZero", {id + "_is"}, {id + "_at"});
  set(m.node("Transpose", {id + "_at"}, {id + "_rows"}), "perm", std::vector<int64_t>{1, 0});
  m.node("GatherND", {of, id + "_rows"}, {id});
}

TEST(Symbol, OneMaskSelectsEquallyManyOfEach) {
  TestModel m;
  m.input("x", {"2", "2"});
  m.input("y", {"2", "2"});
  m.input("mask", {"2", "2"});
  weight(m.graph, "zero", {}, 0);
  addSelection(m, "x", "a");
  addSelection(m, "y", "b");
  m.node("Add", {"a", "b"}, {"sum"});
  m.output("sum");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.model->module->symbols.size(), 1u);
  EXPECT_EQ(values(i.run({floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {10, 20, 30, 40}),
                          floats({2, 2}, {1, -1, 0, 5})})[0]),
            Numbers({11, 44}));
}

TEST(Symbol, OtherMasksSelectAsManyAsTheyLike) {
  TestModel m;
  m.input("x", {"4"});
  m.input("mask", {"4"});
  weight(m.graph, "zero", {}, 0);
  addSelection(m, "x", "a");
  m.node("Less", {"mask", "zero"}, {"is"});
  m.node("NonZero", {"is"}, {"at"});
  set(m.node("Transpose", {"at"}, {"rows"}), "perm", std::vector<int64_t>{1, 0});
  m.node("GatherND", {"x", "rows"}, {"b"});
  m.node("Add", {"a", "b"}, {"sum"});
  m.output("sum");
  EXPECT_TRUE(mentions(Imported(m).messages, "shapes do not broadcast"));
}

TEST(Symbol, WhatIsKnownIsCountedAtOnce) {
  TestModel m;
  m.input("x", {"N", "2"});
  m.node("Shape", {"x"}, {"shape"});
  auto *fill = m.node("ConstantOfShape", {"shape"}, {"filled"});
  auto *one = attribute(fill, "value");
  one->set_type(onnx::AttributeProto::TENSOR);
  one->mutable_t()->set_data_type(onnx::TensorProto::INT64);
  one->mutable_t()->add_dims(1);
  one->mutable_t()->add_int64_data(1);
  m.node("NonZero", {"filled"}, {"all"});
  m.node("ConstantOfShape", {"shape"}, {"empty"});
  m.node("NonZero", {"empty"}, {"none"});
  ints(m.graph, "list", {0, 3, 0, 7});
  m.node("NonZero", {"list"}, {"some"});
  for (const char *name : {"all", "none", "some"})
    m.output(name);
  ImportOptions options;
  options.ranges = {{"N", {1, 4}}};
  Imported i(m, options);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(i.model->module->symbols.size(), 1u); // that of the input
  const auto results = i.run({floats({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values(results[0]), Numbers({0, 0, 1, 1, 0, 1, 0, 1}));
  EXPECT_EQ(values(results[1]), Numbers());
  EXPECT_EQ(values(results[2]), Numbers({1, 3}));
}

} // namespace
