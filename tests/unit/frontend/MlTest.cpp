// Tests classical machine learning, and determinants, where ONNX's own tests look away.
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

using Numbers = std::vector<double>;

void setFloats(onnx::NodeProto *n, const std::string &name, const std::vector<float> &values) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::FLOATS);
  for (float v : values)
    a->add_floats(v);
}
void setStrings(onnx::NodeProto *n, const std::string &name,
                const std::vector<std::string> &values) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::STRINGS);
  for (const std::string &v : values)
    a->add_strings(v);
}

TestModel mlModel(int64_t opset = 3) {
  TestModel m;
  auto *set = m.proto.add_opset_import();
  set->set_domain("ai.onnx.ml");
  set->set_version(opset);
  return m;
}

/// Two trees over two features: x0 < 1 ? 10 : (x1 >= 5 ? 20 : 30), and always 1.
onnx::NodeProto *forest(TestModel &m) {
  m.input("x", {"4", "2"});
  auto *n = m.node("TreeEnsembleRegressor", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  set(n, "nodes_treeids", std::vector<int64_t>{0, 0, 0, 0, 0, 7});
  set(n, "nodes_nodeids", std::vector<int64_t>{0, 1, 2, 3, 4, 0});
  set(n, "nodes_featureids", std::vector<int64_t>{0, 0, 1, 0, 0, 0});
  set(n, "nodes_truenodeids", std::vector<int64_t>{1, 0, 3, 0, 0, 0});
  set(n, "nodes_falsenodeids", std::vector<int64_t>{2, 0, 4, 0, 0, 0});
  set(n, "nodes_missing_value_tracks_true", std::vector<int64_t>{1, 0, 0, 0, 0, 0});
  setStrings(n, "nodes_modes", {"BRANCH_LT", "LEAF", "BRANCH_GTE", "LEAF", "LEAF", "LEAF"});
  setFloats(n, "nodes_values", {1, 0, 5, 0, 0, 0});
  set(n, "target_treeids", std::vector<int64_t>{0, 0, 0, 7});
  set(n, "target_nodeids", std::vector<int64_t>{1, 3, 4, 0});
  set(n, "target_ids", std::vector<int64_t>{0, 0, 0, 0});
  setFloats(n, "target_weights", {10, 20, 30, 1});
  set(n, "n_targets", 1);
  m.output("y");
  return n;
}

TEST(Ml, NumberOfTargets) {
  for (int64_t targets : {int64_t(0), int64_t(1) << 33, INT64_MAX}) {
    TestModel m = mlModel();
    for (onnx::AttributeProto &a : *forest(m)->mutable_attribute())
      if (a.name() == "n_targets")
        a.set_i(targets);
    EXPECT_TRUE(Imported(m).messages.find("expected 1 target and at most") != std::string::npos);
  }
}

void setTensor(onnx::NodeProto *n, const std::string &name, onnx::TensorProto::DataType type,
               const std::vector<double> &numbers) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::TENSOR);
  a->mutable_t()->set_data_type(type);
  a->mutable_t()->add_dims(int64_t(numbers.size()));
  for (double v : numbers)
    if (type == onnx::TensorProto::FLOAT)
      a->mutable_t()->add_float_data(float(v));
    else
      a->mutable_t()->add_int32_data(int32_t(v));
}

/// x0 < 1 ? leaf `held` of weights 10, 20 : the other leaf.
Imported stump(int64_t held, bool isLeaf) {
  TestModel m = mlModel(5);
  m.input("x", {"2", "1"});
  auto *n = m.node("TreeEnsemble", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  for (auto [name, value] : {std::pair<const char *, int64_t>{"tree_roots", 0},
                             {"nodes_featureids", 0},
                             {"nodes_truenodeids", held},
                             {"nodes_trueleafs", isLeaf},
                             {"nodes_falsenodeids", 1},
                             {"nodes_falseleafs", 1}})
    set(n, name, std::vector<int64_t>{value});
  set(n, "leaf_targetids", std::vector<int64_t>{0, 0});
  setTensor(n, "nodes_modes", onnx::TensorProto::UINT8, {1});
  setTensor(n, "nodes_splits", onnx::TensorProto::FLOAT, {1});
  setTensor(n, "leaf_weights", onnx::TensorProto::FLOAT, {10, 20});
  m.output("y");
  return Imported(m);
}

TEST(Trees, IdsNameNodesOrLeaves) {
  Imported i = stump(0, true);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({2, 1}, {0, 5})})[0]), Numbers({10, 20}));
  for (bool isLeaf : {false, true})
    for (int64_t id : {int64_t(-1), int64_t(2), INT64_MAX, INT64_MIN})
      EXPECT_NE(stump(id, isLeaf).messages.find("to no node"), std::string::npos) << id;
  // A leaf behind the inner nodes is no inner node.
  EXPECT_NE(stump(1, false).messages.find("to no node"), std::string::npos);
}

TEST(Ml, InfiniteThresholdOfIntegers) {
  TestModel m = mlModel();
  m.input("x", {"2"}, onnx::TensorProto::INT32);
  auto *n = m.node("Binarizer", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  setFloat(n, "threshold", INFINITY);
  m.output("y");
  EXPECT_TRUE(Imported(m));
}

Numbers regression(const char *aggregate, float base) {
  TestModel m = mlModel();
  auto *n = forest(m);
  set(n, "aggregate_function", std::string(aggregate));
  if (base != 0)
    setFloats(n, "base_values", {base});
  Imported i(m);
  EXPECT_TRUE(i) << i.messages;
  return i ? values(i.run({floats({4, 2}, {0, 9, 1, 5, 2, 4, std::nanf(""), 0})})[0]) : Numbers();
}

TEST(Trees, EveryAggregate) {
  EXPECT_EQ(regression("SUM", 0), Numbers({11, 21, 31, 11}));
  EXPECT_EQ(regression("AVERAGE", 0.5f), Numbers({6, 11, 16, 6}));
  EXPECT_EQ(regression("MIN", 0), Numbers({1, 1, 1, 1}));
  EXPECT_EQ(regression("MAX", 0), Numbers({10, 20, 30, 10}));
}

TEST(Trees, TheBestOfTwoClassesWins) {
  TestModel m = mlModel();
  m.input("x", {"2", "1"});
  auto *n = m.node("TreeEnsembleClassifier", {"x"}, {"label", "scores"});
  n->set_domain("ai.onnx.ml");
  for (const char *name : {"nodes_treeids", "nodes_featureids"})
    set(n, name, std::vector<int64_t>{0, 0, 0});
  set(n, "nodes_nodeids", std::vector<int64_t>{0, 1, 2});
  set(n, "nodes_truenodeids", std::vector<int64_t>{1, 0, 0});
  set(n, "nodes_falsenodeids", std::vector<int64_t>{2, 0, 0});
  setStrings(n, "nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"});
  setFloats(n, "nodes_values", {0, 0, 0});
  set(n, "class_treeids", std::vector<int64_t>{0, 0, 0, 0});
  set(n, "class_nodeids", std::vector<int64_t>{1, 1, 2, 2});
  set(n, "class_ids", std::vector<int64_t>{0, 1, 0, 1});
  setFloats(n, "class_weights", {0.7f, 0.3f, 0.2f, 0.8f});
  set(n, "classlabels_int64s", std::vector<int64_t>{30, 70});
  m.output("label");
  m.output("scores");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({2, 1}, {-1, 1})})[0]), Numbers({30, 70}));
}

/// Scores of two classes of one tree whose weights all name class `named`.
Numbers twoClasses(int64_t named, const std::string &transform, float low,
                   const std::vector<float> &base = {}) {
  TestModel m = mlModel();
  m.input("x", {"2", "1"});
  auto *n = m.node("TreeEnsembleClassifier", {"x"}, {"label", "scores"});
  n->set_domain("ai.onnx.ml");
  for (const char *name : {"nodes_treeids", "nodes_featureids"})
    set(n, name, std::vector<int64_t>{0, 0, 0});
  set(n, "nodes_nodeids", std::vector<int64_t>{0, 1, 2});
  set(n, "nodes_truenodeids", std::vector<int64_t>{1, 0, 0});
  set(n, "nodes_falsenodeids", std::vector<int64_t>{2, 0, 0});
  setStrings(n, "nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"});
  setFloats(n, "nodes_values", {0, 0, 0});
  set(n, "class_treeids", std::vector<int64_t>{0, 0});
  set(n, "class_nodeids", std::vector<int64_t>{1, 2});
  set(n, "class_ids", std::vector<int64_t>{named, named});
  setFloats(n, "class_weights", {low, 0.75f});
  if (!base.empty())
    setFloats(n, "base_values", base);
  set(n, "classlabels_int64s", std::vector<int64_t>{30, 70});
  set(n, "post_transform", transform);
  m.output("label");
  m.output("scores");
  Imported i(m);
  return i ? values(i.run({floats({2, 1}, {-1, 1})})[1]) : Numbers();
}

TEST(Trees, WhatIsLeftOfTheSecondClassIsTheFirsts) {
  EXPECT_EQ(twoClasses(0, "NONE", 0.25f), Numbers({0.75, 0.25, 0.25, 0.75}));
  EXPECT_EQ(twoClasses(0, "SOFTMAX", 0.25f), Numbers({0.75, 0.25, 0.25, 0.75}));
  EXPECT_EQ(twoClasses(0, "NONE", -0.5f), Numbers({0.5, -0.5, -0.75, 0.75}));
  EXPECT_EQ(twoClasses(1, "NONE", 0.25f), Numbers({0, 0.25, 0, 0.75}));
  for (float low : {0.25f, -0.5f}) {
    const Numbers chances = twoClasses(0, "LOGISTIC", low);
    ASSERT_EQ(chances.size(), 4u);
    EXPECT_NEAR(chances[0] + chances[1], 1, 1e-6);
    EXPECT_NEAR(chances[3], 1 / (1 + std::exp(-0.75)), 1e-6);
  }
}

TEST(Trees, TwoBaseValuesAreAScoreOfEachClass) {
  EXPECT_EQ(twoClasses(0, "NONE", 0.25f, {0.5f}), Numbers({0.25, 0.75, -0.25, 1.25}));
  EXPECT_EQ(twoClasses(0, "NONE", 0.25f, {0.5f, -1}), Numbers({0.75, -1, 1.25, -1}));
  EXPECT_EQ(twoClasses(1, "NONE", 0.25f, {0.5f, -1}), Numbers({0.5, -0.75, 0.5, -0.25}));
}

TEST(SupportVectors, WithoutVectorsAProduct) {
  TestModel m = mlModel();
  m.input("x", {"1", "3"});
  auto *n = m.node("SVMRegressor", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  setFloats(n, "coefficients", {1, -2, 0.5f});
  setFloats(n, "rho", {0.25f});
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({1, 3}, {1, 2, 4})})[0]), Numbers({-0.75}));
}

/// A classifier's scores as a list of maps, as skl2onnx and onnxmltools write them.
TestModel zipped(int64_t classes) {
  TestModel m = mlModel();
  m.input("x", {"2", "3"});
  auto *n = m.node("ZipMap", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  auto *labels = attribute(n, "classlabels_int64s");
  labels->set_type(onnx::AttributeProto::INTS);
  for (int64_t i = 0; i < classes; ++i)
    labels->add_ints(7 - i);
  auto *y = m.graph.add_output();
  y->set_name("y");
  auto *map = y->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_map_type();
  map->set_key_type(onnx::TensorProto::INT64);
  map->mutable_value_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return m;
}

TEST(Maps, AreTheMatrixOfTheirValues) {
  TestModel m = zipped(3);
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_TRUE(mentions(i.messages, "a column for each class label"));
  EXPECT_EQ(values(i.run({floats({2, 3}, {1, 2, 3, 4, 5, 6})})[0]), Numbers({1, 2, 3, 4, 5, 6}));
}

TEST(Maps, HaveAColumnForEachLabel) {
  EXPECT_TRUE(mentions(Imported(zipped(2)).messages, "2 class labels"));
  EXPECT_TRUE(mentions(Imported(zipped(0)).messages, "classlabels_int64s"));
}

TEST(Trees, CirclesAreNamed) {
  TestModel m = mlModel();
  auto *n = forest(m);
  for (auto &a : *n->mutable_attribute())
    if (a.name() == "nodes_falsenodeids")
      a.set_ints(0, 0);
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "nodes of the trees lead in circles or to no node"));
}

TEST(LabelEncoder, NumbersWithDefault) {
  TestModel m = mlModel();
  m.input("x", {"3"});
  auto *n = m.node("LabelEncoder", {"x"}, {"y"});
  n->set_domain("ai.onnx.ml");
  setFloats(n, "keys_floats", {1.5f, std::nanf("")});
  set(n, "values_int64s", std::vector<int64_t>{7, 8});
  set(n, "default_int64", 9);
  m.output("y");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({3}, {std::nanf(""), 1.5, 2})})[0]), Numbers({8, 7, 9}));
}

double determinant(int64_t size, const std::vector<double> &elements) {
  TestModel m;
  const std::string extent = std::to_string(size);
  m.input("x", {extent, extent});
  m.node("Det", {"x"}, {"y"});
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(i) << i.messages;
  return i ? i.run({floats({size, size}, elements)})[0].at(0) : 0;
}

TEST(Det, PivotsAndSingularMatrices) {
  EXPECT_NEAR(determinant(3, {0, 2, 0, 1, 0, 0, 0, 0, 3}), -6, 1e-5);
  EXPECT_NEAR(determinant(3, {2, -1, 0, -1, 2, -1, 0, -1, 2}), 4, 1e-5);
  EXPECT_EQ(determinant(3, {0, 1, 2, 0, 3, 4, 0, 5, 6}), 0);
  EXPECT_EQ(determinant(1, {-7}), -7);
}

TEST(Pools, IndicesByColumns) {
  TestModel m;
  m.input("x", {"1", "1", "2", "4"});
  auto *n = m.node("MaxPool", {"x"}, {"y", "i"});
  set(n, "kernel_shape", std::vector<int64_t>{2, 2});
  set(n, "strides", std::vector<int64_t>{2, 2});
  set(n, "storage_order", 1);
  m.output("i");
  Imported i(m);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({floats({1, 1, 2, 4}, {1, 2, 8, 3, 5, 4, 6, 7})})[0]), Numbers({1, 4}));
}

} // namespace
