// Tests Resize whose sizes or scales the data decide: it gives what it gives where they are known
// when compiling.
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

struct Case {
  std::string mode, coordinates = "half_pixel", nearest = "round_prefer_floor";
  bool excludeOutside = false;
  int type = onnx::TensorProto::FLOAT;
};

onnx::NodeProto *resize(TestModel &m, const Case &c, const std::vector<std::string> &inputs) {
  auto *n = m.node("Resize", inputs, {"y"}, "resize");
  set(n, "mode", c.mode);
  set(n, "coordinate_transformation_mode", c.coordinates);
  set(n, "nearest_mode", c.nearest);
  set(n, "exclude_outside", int64_t(c.excludeOutside));
  setFloat(n, "cubic_coeff_a", -0.6f);
  setFloat(n, "extrapolation_value", -7);
  m.output("y");
  return n;
}

void addFloats(TestModel &m, const std::string &name, const std::vector<float> &values) {
  auto *t = m.graph.add_initializer();
  t->set_name(name);
  t->set_data_type(onnx::TensorProto::FLOAT);
  t->add_dims(int64_t(values.size()));
  for (float v : values)
    t->add_float_data(v);
}

/// [1, 2, 5, 4] to [1, 2, sizes…].
TestModel bySizes(const Case &c) {
  TestModel m;
  m.input("x", {"1", "2", "5", "4"}, c.type);
  m.input("sizes", {"2"}, onnx::TensorProto::INT64);
  ints(m.graph, "kept", {1, 2});
  set(m.node("Concat", {"kept", "sizes"}, {"all"}), "axis", int64_t(0));
  addFloats(m, "roi", {0, 0, 0.2f, -0.3f, 1, 1, 0.9f, 1.2f});
  resize(m, c, {"x", c.coordinates == "tf_crop_and_resize" ? "roi" : "", "", "all"});
  return m;
}

/// [5, 4] to that times `factor`, and three times that.
TestModel byScales(const Case &c) {
  TestModel m;
  m.input("x", {"5", "4"}, c.type);
  m.input("factor", {"1"});
  addFloats(m, "low", {0.25f});
  addFloats(m, "high", {2.5f});
  addFloats(m, "three", {3});
  m.node("Max", {"factor", "low"}, {"above"});
  m.node("Min", {"above", "high"}, {"within"});
  set(m.node("Concat", {"within", "three"}, {"scales"}), "axis", int64_t(0));
  addFloats(m, "roi", {0.2f, -0.3f, 0.9f, 1.2f});
  resize(m, c, {"x", c.coordinates == "tf_crop_and_resize" ? "roi" : "", "scales"});
  return m;
}

Tensor picture(llvm::ArrayRef<int64_t> shape, Element e) {
  Tensor t(e, shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, double((i * 37) % 41) - 20);
  return t;
}

void expectSame(const Tensor &found, const Tensor &expected, const std::string &what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  for (int64_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found.at(i), expected.at(i), 1e-5 * (1 + std::fabs(expected.at(i))))
        << what << " at " << i;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                  "align_corners", "asymmetric", "tf_crop_and_resize"}) {
    for (const char *nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      all.push_back({"nearest", coordinates, nearest});
    all.push_back({"linear", coordinates});
    all.push_back({"cubic", coordinates});
    all.push_back({"cubic", coordinates, "floor", true});
  }
  all.push_back({"linear", "half_pixel", "floor", false, onnx::TensorProto::INT8});
  all.push_back({"nearest", "asymmetric", "floor", false, onnx::TensorProto::INT64});
  return all;
}

Element elementOf(const Case &c) {
  return c.type == onnx::TensorProto::INT8    ? Element::I8
         : c.type == onnx::TensorProto::INT64 ? Element::I64
                                              : Element::F32;
}

TEST(Resize, SizesFromDataGiveWhatKnownOnesGive) {
  ImportOptions open;
  open.ranges = {{"sizes", {1, 12}}};
  for (const Case &c : cases()) {
    const TestModel m = bySizes(c);
    Imported dynamic(m, open);
    ASSERT_TRUE(dynamic) << dynamic.messages;
    EXPECT_EQ(dynamic.outputType().dim(2).upper(), 12);
    const Tensor x = picture({1, 2, 5, 4}, elementOf(c));
    for (const Ints &sizes : {Ints{5, 4}, {1, 1}, {12, 7}, {3, 12}, {10, 2}}) {
      ImportOptions known;
      known.constants["sizes"] = Tensor::fromInts(sizes);
      Imported fixed(m, known);
      ASSERT_TRUE(fixed) << fixed.messages;
      expectSame(dynamic.run({x, Tensor::fromInts(sizes)})[0], fixed.run({x})[0],
                 c.mode + " " + c.coordinates + " " + c.nearest + " to " +
                     std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]));
    }
  }
}

TEST(Resize, ScalesFromDataGiveWhatKnownOnesGive) {
  for (const Case &c : cases()) {
    const TestModel m = byScales(c);
    Imported dynamic(m);
    ASSERT_TRUE(dynamic) << dynamic.messages;
    const bool crop = c.coordinates == "tf_crop_and_resize";
    EXPECT_EQ(dynamic.outputType().dim(0).upper(), crop ? 8 : 12);
    EXPECT_TRUE(dynamic.outputType().dim(1).isConstant(crop ? 18 : 12));
    const Tensor x = picture({5, 4}, elementOf(c));
    for (double factor : {0.25, 1.0, 1.5, 2.25, 2.5}) {
      ImportOptions known;
      known.constants["factor"] = floats({1}, {factor});
      Imported fixed(m, known);
      ASSERT_TRUE(fixed) << fixed.messages;
      expectSame(dynamic.run({x, floats({1}, {factor})})[0], fixed.run({x})[0],
                 c.mode + " " + c.coordinates + " " + c.nearest + " by " + std::to_string(factor));
    }
  }
}

/// Opset 10 picks from above where a scale shrinks, as ONNX's example of it says, from below
/// elsewhere.
TEST(Resize, Opset10PicksFromAboveWhereItShrinks) {
  for (const char *op : {"Resize", "Upsample"}) {
    const bool resize = llvm::StringRef(op) == "Resize";
    TestModel m(resize ? 10 : 9);
    m.input("x", {"2", "4"});
    addFloats(m, "scales", {2, 0.6f});
    set(m.node(op, {"x", "scales"}, {"y"}), "mode", std::string("nearest"));
    m.output("y");
    Imported model(m);
    ASSERT_TRUE(model) << model.messages;
    const double second = resize ? 3 : 2;
    expectSame(model.run({floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})})[0],
               floats({4, 2}, {1, second, 1, second, 5, second + 4, 5, second + 4}), op);
  }
}

TEST(Resize, RegionsFromDataGiveWhatKnownOnesGive) {
  // As tf2onnx writes crop_and_resize: starts and ends of channels are constants.
  const Tensor x = picture({1, 2, 5, 4}, Element::F32);
  for (const char *mode : {"nearest", "linear"})
    for (std::vector<double> box : {std::vector<double>{0.1, 0.2, 0.9, 0.6},
                                    {0, 0, 1, 1},
                                    {0.8, 0.5, 0.2, 0.5},
                                    {-0.2, 0.3, 1.4, 0.9}}) {
      auto model = [&](bool known) {
        TestModel m;
        m.input("x", {"1", "2", "5", "4"});
        m.input("low", {"2"});
        m.input("high", {"2"});
        weight(m.graph, "zeros", {2}, 0);
        weight(m.graph, "ones", {2}, 1);
        ints(m.graph, "sizes", {1, 2, 3, 3});
        if (known) {
          auto *roi = m.graph.add_initializer();
          roi->set_name("roi");
          roi->set_data_type(onnx::TensorProto::FLOAT);
          roi->add_dims(8);
          for (double v : {0.0, 0.0, box[0], box[1], 1.0, 1.0, box[2], box[3]})
            roi->add_float_data(float(v));
        } else {
          set(m.node("Concat", {"zeros", "low"}, {"starts"}), "axis", 0);
          set(m.node("Concat", {"ones", "high"}, {"ends"}), "axis", 0);
          set(m.node("Concat", {"starts", "ends"}, {"roi"}), "axis", 0);
        }
        auto *n = m.node("Resize", {"x", "roi", "", "sizes"}, {"y"});
        set(n, "mode", std::string(mode));
        set(n, "coordinate_transformation_mode", std::string("tf_crop_and_resize"));
        setFloat(n, "extrapolation_value", 9);
        m.output("y");
        return m;
      };
      const std::vector<Tensor> operands{x, floats({2}, {box[0], box[1]}),
                                         floats({2}, {box[2], box[3]})};
      Imported dynamic(model(false));
      ASSERT_TRUE(dynamic) << dynamic.messages;
      EXPECT_EQ(toString(dynamic.outputType()), "tensor<1x2x3x3xf32>");
      expectSame(dynamic.run(operands)[0], Imported(model(true)).run(operands)[0], mode);
    }
}

TEST(Resize, RegionsFromDataTakeSizes) {
  TestModel m;
  m.input("x", {"4"});
  m.input("roi", {"2"});
  weight(m.graph, "scales", {1}, 2);
  auto *n = m.node("Resize", {"x", "roi", "scales"}, {"y"});
  set(n, "coordinate_transformation_mode", std::string("tf_crop_and_resize"));
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "expected sizes instead of scales"));
}

TEST(Resize, OpenDimensionsScaleToKnownSizes) {
  TestModel m;
  m.input("x", {"N", "3"});
  ints(m.graph, "sizes", {4, 6});
  resize(m, {"linear"}, {"x", "", "", "sizes"});
  ImportOptions open;
  open.ranges = {{"N", {1, 9}}};
  Imported dynamic(m, open);
  ASSERT_TRUE(dynamic) << dynamic.messages;
  EXPECT_EQ(toString(dynamic.outputType()), "tensor<4x6xf32>");
  for (int64_t rows : {1, 4, 9}) {
    ImportOptions known;
    known.bindDims = {{"N", rows}};
    const Tensor x = picture({rows, 3}, Element::F32);
    expectSame(dynamic.run({x})[0], Imported(m, known).run({x})[0], std::to_string(rows));
  }
}

TEST(Resize, ScalesThatAreSizesOverExtentsLeadToTheSizes) {
  // As PyTorch writes sizes for opsets 9 and 10, which have scales alone.
  for (const char *of : {"x", "z"}) {
    TestModel m(10);
    m.input("x", {"1", "W"});
    m.input("z", {"1", "V"});
    m.input("like", {"1", "T"});
    weight(m.graph, "one", {1}, 1);
    ints(m.graph, "second", {1});
    for (const char *name : {"like", of}) {
      const std::string v = name;
      m.node("Shape", {v}, {v + "shape"});
      m.node("Gather", {v + "shape", "second"}, {v + "last"});
      set(m.node("Cast", {v + "last"}, {v + "float"}), "to", onnx::TensorProto::FLOAT);
    }
    m.node("Div", {"likefloat", std::string(of) + "float"}, {"scale"});
    set(m.node("Concat", {"one", "scale"}, {"scales"}), "axis", 0);
    set(m.node("Resize", {"x", "scales"}, {"up"}), "mode", std::string("linear"));
    m.node("Add", {"up", "like"}, {"y"});
    m.output("y");
    ImportOptions open;
    open.ranges = {{"W", {1, 9}}, {"V", {1, 9}}, {"T", {1, 9}}};
    Imported i(m, open);
    if (std::string(of) == "z") { // of another image: whatever that gives
      EXPECT_TRUE(mentions(i.messages, "shapes do not broadcast"));
      continue;
    }
    ASSERT_TRUE(i) << i.messages;
    EXPECT_EQ(toString(i.outputType()), "tensor<1x{T}xf32>");
    for (int64_t w : {2, 3})
      for (int64_t t : {1, 5, 7}) {
        ImportOptions known;
        known.bindDims = {{"W", w}, {"T", t}, {"V", 1}};
        const std::vector<Tensor> operands{picture({1, w}, Element::F32), floats({1, 1}, {0}),
                                           picture({1, t}, Element::F32)};
        expectSame(i.run(operands)[0], Imported(m, known).run(operands)[0], std::to_string(t));
      }
  }
}

TEST(Resize, OpenExtentsKeepTheirRatio) {
  // An image of any size into a frame of one, as it is put before detectors.
  for (const char *policy : {"not_larger", "not_smaller"}) {
    TestModel m(18);
    m.input("x", {"2", "H", "W"});
    ints(m.graph, "sizes", {6, 8});
    auto *n = m.node("Resize", {"x", "", "", "sizes"}, {"fit"});
    set(n, "mode", std::string("linear"));
    set(n, "keep_aspect_ratio_policy", std::string(policy));
    set(n, "axes", std::vector<int64_t>{1, 2});
    set(m.node("CenterCropPad", {"fit", "sizes"}, {"y"}), "axes", std::vector<int64_t>{1, 2});
    m.output("y");
    ImportOptions open;
    open.ranges = {{"H", {1, 20}}, {"W", {1, 20}}};
    Imported i(m, open);
    ASSERT_TRUE(i) << i.messages;
    EXPECT_EQ(toString(i.outputType()), "tensor<2x6x8xf32>");
    for (auto [h, w] : {std::pair(6, 8), std::pair(3, 8), std::pair(20, 7), std::pair(5, 20),
                        std::pair(1, 1), std::pair(7, 9)}) {
      ImportOptions known;
      known.bindDims = {{"H", h}, {"W", w}};
      const Tensor x = picture({2, h, w}, Element::F32);
      expectSame(i.run({x})[0], Imported(m, known).run({x})[0],
                 std::string(policy) + " " + std::to_string(h) + "x" + std::to_string(w));
    }
  }
}

TEST(Resize, SizesAreProductsOfSingles) {
  for (int64_t opset : {10, 13})
    for (bool open : {false, true}) {
      TestModel m(opset);
      m.input("x", {open ? "N" : "3"});
      weight(m.graph, "scale", {1}, 5.0f / 3); // less than that
      if (opset < 11)
        m.node("Resize", {"x", "scale"}, {"y"});
      else
        m.node("Resize", {"x", "", "scale"}, {"y"});
      m.output("y");
      ImportOptions range;
      range.ranges = {{"N", {1, 9}}};
      Imported i(m, open ? range : ImportOptions());
      ASSERT_TRUE(i) << i.messages;
      EXPECT_EQ(i.run({floats({3}, {1, 2, 3})})[0].size(), 5) << opset << open;
    }
}

TEST(Resize, OneSizeMayBeAScalar) {
  TestModel m(18);
  m.input("x", {"N", "3"});
  onnx::TensorProto *size = m.graph.add_initializer();
  size->set_name("size");
  size->set_data_type(onnx::TensorProto::INT64);
  size->add_int64_data(4);
  set(resize(m, {"linear"}, {"x", "", "", "size"}), "axes", std::vector<int64_t>{0});
  ImportOptions open;
  open.ranges = {{"N", {1, 9}}};
  Imported i(m, open);
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(toString(i.outputType()), "tensor<4x3xf32>");
}

TEST(Resize, AntialiasOfOpenExtentsIsAProduct) {
  for (bool open : {false, true}) {
    TestModel m(18);
    m.input("x", {"1", open ? "N" : "6"});
    ints(m.graph, "sizes", {1, 3});
    set(resize(m, {"linear"}, {"x", "", "", "sizes"}), "antialias", int64_t(1));
    ImportOptions range;
    range.ranges = {{"N", {1, 9}}};
    Imported i(m, open ? range : ImportOptions());
    ASSERT_TRUE(i) << i.messages;
    EXPECT_EQ(i.all(Op::MatMul).size(), open ? 1u : 0u);
    const auto y = values(i.run({floats({1, 6}, {1, 2, 4, 8, 16, 32})})[0]);
    // Each reads 2 on either side: weights 1/8, 3/8, 3/8, 1/8.
    const std::vector<double> wanted = {1.75, 6.75, 23};
    ASSERT_EQ(y.size(), 3u);
    for (size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(y[k], wanted[k], 1e-6) << open << k;
  }
}

TEST(Resize, WhatDataCannotDecideIsSaid) {
  EXPECT_TRUE(mentions(Imported(bySizes({"linear"})).messages,
                       "the value 'sizes' of type tensor<2xi64> has no bounds; say what it is at "
                       "least and at most with --range sizes=1..100"));
  ImportOptions open;
  open.ranges = {{"sizes", {1, 12}}};
  EXPECT_TRUE(mentions(Imported(bySizes({"quadratic"}), open).messages,
                       "node 'resize' (Resize): attribute mode: expected nearest, linear or cubic, "
                       "found 'quadratic'"));
}

} // namespace
