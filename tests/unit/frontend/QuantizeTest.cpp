// Tests blocks of QuantizeLinear and DequantizeLinear whose last one is not full, which ONNX's own
// tests leave out: its scale serves the entries that there are.
#include "Support.h"

using namespace tenon;
using namespace tenon::test;

namespace {

/// [1, 5] in blocks of 2 along axis 1, with scales 1, 10, 100 and the zero points given.
Imported blocked(const std::string &op, int x, int zero, int64_t block = 2) {
  TestModel m(21);
  m.input("x", {"1", "5"}, x);
  m.input("scale", {"1", "3"});
  m.input("zero", {"1", "3"}, zero);
  auto *n = m.node(op, {"x", "scale", "zero"}, {"y"});
  set(n, "axis", 1);
  set(n, "block_size", block);
  m.output("y");
  return Imported(m);
}

Tensor integers(Element e, const std::vector<int64_t> &values) {
  Tensor t(e, {1, int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    t.setInt(int64_t(i), values[i]);
  return t;
}

TEST(Quantize, DequantizesALastBlockThatIsNotFull) {
  for (auto [type, element] : {std::pair(onnx::TensorProto::INT8, Element::I8),
                               std::pair(onnx::TensorProto::INT4, Element::I4),
                               std::pair(onnx::TensorProto::UINT4, Element::U4)}) {
    Imported i = blocked("DequantizeLinear", type, type);
    ASSERT_TRUE(i) << i.messages;
    const Tensor y = i.run({integers(element, {1, 2, 3, 4, 5}), floats({1, 3}, {1, 10, 100}),
                            integers(element, {0, 1, 2})})[0];
    const double expected[] = {1, 2, 20, 30, 300};
    for (int64_t k = 0; k < 5; ++k)
      EXPECT_EQ(y.at(k), expected[k]) << k;
  }
}

TEST(Quantize, QuantizesALastBlockThatIsNotFull) {
  for (auto [type, element] : {std::pair(onnx::TensorProto::UINT8, Element::U8),
                               std::pair(onnx::TensorProto::INT4, Element::I4)}) {
    Imported i = blocked("QuantizeLinear", onnx::TensorProto::FLOAT, type);
    ASSERT_TRUE(i) << i.messages;
    const Tensor y = i.run({floats({1, 5}, {1, 2, 20, 30, 300}), floats({1, 3}, {1, 10, 100}),
                            integers(element, {0, 1, 2})})[0];
    EXPECT_EQ(y.element(), element);
    for (int64_t k = 0; k < 5; ++k)
      EXPECT_EQ(y.intAt(k), k + 1) << k;
  }
}

TEST(Quantize, ScalesAreAsManyAsBlocks) {
  for (int64_t block : {int64_t(1), int64_t(3), int64_t(5)})
    EXPECT_TRUE(mentions(
        blocked("DequantizeLinear", onnx::TensorProto::INT8, onnx::TensorProto::INT8, block)
            .messages,
        "does not fit tensor<1x5xi8>"))
        << block;
}

TEST(Quantize, ScalesAndZeroPointsAreNumbers) {
  for (const char *op : {"QuantizeLinear", "DequantizeLinear"})
    for (auto [scale, zero, wrong] :
         {std::tuple(onnx::TensorProto::BOOL, onnx::TensorProto::FLOAT8E5M2, "operand 'scale'"),
          std::tuple(onnx::TensorProto::BOOL, onnx::TensorProto::UINT8, "operand 'scale'"),
          std::tuple(onnx::TensorProto::FLOAT, onnx::TensorProto::BOOL, "operand 'zero'")}) {
      TestModel m(21);
      m.input("x", {"4"}, op[0] == 'Q' ? int(onnx::TensorProto::FLOAT) : int(zero));
      m.input("scale", {}, scale);
      m.input("zero", {}, zero);
      m.node(op, {"x", "scale", "zero"}, {"y"});
      m.output("y");
      EXPECT_TRUE(mentions(Imported(m).messages, wrong)) << op << " " << scale;
    }
}

} // namespace
