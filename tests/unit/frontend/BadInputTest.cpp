// Tests bad input: damaged files, impossible sizes, wrong types, data outside the folder. Each is a
// clear error.
#include "Support.h"

#include "llvm/Support/FileSystem.h"

#include <fstream>

using namespace tenon;
using namespace tenon::test;

namespace {

TEST(BadInput, NotAModel) {
  EXPECT_TRUE(mentions(Imported(std::string()).messages, "not an ONNX model"));
  EXPECT_TRUE(mentions(Imported(std::string("hello, world")).messages, "not an ONNX model"));
  TestModel empty;
  onnx::ModelProto none;
  none.set_ir_version(8);
  EXPECT_TRUE(mentions(Imported(none.SerializeAsString()).messages, "no graph"));
}

TEST(BadInput, TruncatedFiles) {
  TestModel m;
  m.input("x", {"2"});
  weight(m.graph, "w", {2}, 1);
  m.node("Add", {"x", "w"}, {"y"});
  m.output("y");
  const std::string bytes = m.bytes();
  for (size_t size = 0; size < bytes.size(); ++size)
    Imported i(bytes.substr(0, size)); // checks that a model or an error comes out
}

TEST(BadInput, WhatComputesRefusesComplexNumbers) {
  for (const char *op : {"ReduceMin", "ReduceMax", "ArgMin", "ReduceSum", "Neg"}) {
    TestModel m;
    m.input("x", {"2"}, onnx::TensorProto::COMPLEX128);
    m.node(op, {"x"}, {"y"});
    m.output("y");
    EXPECT_TRUE(mentions(Imported(m).messages, "operand 'x' of type tensor<2xc128> is not "
                                               "supported: expected a tensor of real numbers"))
        << op;
  }
}

TEST(BadInput, SequencesHaveNoAbsentElements) {
  TestModel m;
  m.input("x", {"2"});
  m.node("SequenceConstruct", {"x", "", "x"}, {"s"});
  m.node("SequenceLength", {"s"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "operand 1 is missing"));
}

TEST(BadInput, ScatterIntoNoElements) {
  TestModel m;
  m.input("x", {"5", "0"});
  m.input("i", {"3", "1"}, onnx::TensorProto::INT64);
  m.input("u", {"3", "0"});
  m.node("ScatterND", {"x", "i", "u"}, {"y"});
  m.output("y");
  Imported i(m);
  EXPECT_TRUE(i) << i.messages;
}

TEST(BadInput, AllUnsupportedOperatorsAtOnce) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Frobnicate", {"x"}, {"a"}, "one");
  m.node("Frobnicate", {"a"}, {"b"}, "two");
  m.node("Relu", {"b"}, {"c"});
  auto *n = m.node("Blend", {"c"}, {"y"}, "three");
  n->set_domain("com.example");
  m.node("Upsample", {"y"}, {"z"}, "four"); // gone since opset 10
  m.output("z");
  Imported i(m);
  EXPECT_TRUE(mentions(i.messages, "Frobnicate ×2"));
  EXPECT_TRUE(mentions(i.messages, "'one', 'two'"));
  EXPECT_TRUE(mentions(i.messages, "com.example.Blend ×1"));
  EXPECT_TRUE(mentions(i.messages, "Upsample of opset 17 ×1"));
  EXPECT_EQ(i.diagnostics.list().size(), 1u);
}

TEST(BadInput, UnsupportedOperatorsInSubgraphs) {
  TestModel m;
  m.input("c", {}, onnx::TensorProto::BOOL);
  auto *n = m.node("If", {"c"}, {"y"}, "if");
  node(setGraph(n, "then_branch"), "Frobnicate", {}, {"a"});
  setGraph(n, "else_branch");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "'if/then_branch/Frobnicate_0'"));
}

TEST(BadInput, ErrorsInBranchesNameTheInputThatDecides) {
  TestModel m;
  m.input("rate", {}, onnx::TensorProto::INT64);
  m.input("x", {"2", "3"});
  ints(m.graph, "high", {16000}, true);
  m.node("Equal", {"rate", "high"}, {"c"});
  auto *n = m.node("If", {"c"}, {"y"}, "if");
  auto &yes = setGraph(n, "then_branch"), &no = setGraph(n, "else_branch");
  node(yes, "Neg", {"x"}, {"a"});
  yes.add_output()->set_name("a");
  node(no, "MatMul", {"x", "x"}, {"b"}); // 3 against 2
  no.add_output()->set_name("b");
  m.output("y");
  const std::string messages = Imported(m).messages;
  EXPECT_TRUE(mentions(messages, "(MatMul): "));
  EXPECT_TRUE(mentions(messages, "input 'rate' decides whether the else_branch of 'if' is taken"));
  EXPECT_TRUE(mentions(messages, "--bind rate=VALUE"));
}

TEST(BadInput, WrongTypesAndShapesNameTheNode) {
  TestModel m;
  m.input("x", {"2", "3"});
  m.input("i", {"2"}, onnx::TensorProto::INT64);
  m.node("Add", {"x", "i"}, {"y"}, "sum");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "node 'sum' (Add): "));
  TestModel n;
  n.input("x", {"1", "3", "8", "8"});
  weight(n.graph, "w", {4, 2, 3, 3}, 1);
  n.node("Conv", {"x", "w"}, {"y"}, "conv");
  n.output("y");
  EXPECT_TRUE(mentions(Imported(n).messages, "node 'conv' (Conv): w: expected 3 input channels"));
}

TEST(BadInput, MissingOperandsAndAttributes) {
  TestModel m;
  m.input("x", {"2", "3"});
  m.node("MatMul", {"x"}, {"y"}, "product");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "operand 1 is missing: expected at least 2"));
  TestModel n;
  n.input("x", {"2", "3"});
  set(n.node("Softmax", {"x"}, {"y"}), "axis", "text");
  n.output("y");
  EXPECT_TRUE(mentions(Imported(n).messages, "attribute axis: expected an integer"));
  TestModel k;
  k.input("x", {"2", "3"});
  set(k.node("Softmax", {"x"}, {"y"}), "axis", 7);
  k.output("y");
  EXPECT_TRUE(mentions(Imported(k).messages, "axis 7 is out of range for rank 2"));
}

TEST(BadInput, HugeExtentsAllocateNothing) {
  for (int64_t extent : {int64_t(1) << 62, INT64_MAX, int64_t(1) << 41}) {
    TestModel m;
    m.input("x", {std::to_string(extent)});
    m.node("Relu", {"x"}, {"y"});
    m.output("y");
    EXPECT_FALSE(Imported(m)) << extent;
    TestModel n;
    n.input("x", {"1"});
    ints(n.graph, "shape", {extent, 4});
    n.node("Expand", {"x", "shape"}, {"y"}, "expand");
    n.output("y");
    EXPECT_FALSE(Imported(n)) << extent;
    TestModel k;
    ints(k.graph, "shape", {extent});
    k.node("ConstantOfShape", {"shape"}, {"y"});
    k.output("y");
    EXPECT_FALSE(Imported(k)) << extent;
    TestModel w;
    auto *t = w.graph.add_initializer();
    t->set_name("w");
    t->set_data_type(onnx::TensorProto::FLOAT);
    t->add_dims(extent);
    t->set_raw_data("1234");
    w.node("Relu", {"w"}, {"y"});
    w.output("y");
    EXPECT_FALSE(Imported(w)) << extent;
  }
}

TEST(BadInput, ExtremeAttributes) {
  for (int64_t v : {INT64_MIN, INT64_MAX, int64_t(INT32_MAX) + 1, int64_t(-1)}) {
    TestModel m;
    m.input("x", {"1", "1", "4", "4"});
    auto *n = m.node("MaxPool", {"x"}, {"y"});
    set(n, "kernel_shape", std::vector<int64_t>{v, v});
    set(n, "strides", std::vector<int64_t>{v, 1});
    m.output("y");
    EXPECT_FALSE(Imported(m)) << v;
    TestModel s;
    s.input("x", {"4"});
    for (const char *name : {"starts", "ends", "axes", "steps"})
      ints(s.graph, name, {v});
    s.node("Slice", {"x", "starts", "ends", "", "steps"}, {"y"});
    s.output("y");
    Imported slice(s); // may be legal and empty
    TestModel p;
    p.input("x", {"4"});
    ints(p.graph, "pads", {v, v});
    p.node("Pad", {"x", "pads"}, {"y"});
    p.output("y");
    Imported pad(p);
  }
}

TEST(BadInput, ExtremeNumbersOfWindowsIndicesAndStates) {
  for (int64_t v : {INT64_MIN, INT64_MAX}) {
    TestModel m;
    m.input("x", {"1", "1", "4", "4"});
    weight(m.graph, "w", {1, 1, 3, 3}, 1);
    set(m.node("ConvTranspose", {"x", "w"}, {"y"}), "output_shape", std::vector<int64_t>{v, 4});
    m.output("y");
    EXPECT_TRUE(mentions(Imported(m).messages, "attribute output_shape: expected extents"));
    TestModel g;
    g.input("x", {"2", "3"});
    ints(g.graph, "i", {0, 1});
    set(g.node("GatherND", {"x", "i"}, {"y"}), "batch_dims", v);
    g.output("y");
    EXPECT_TRUE(mentions(Imported(g).messages, "attribute batch_dims: expected 0 to 1"));
    TestModel s;
    s.input("x", {"2"});
    auto *scan = s.node("Scan", {"x"}, {"y"});
    setGraph(scan, "body");
    set(scan, "num_scan_inputs", v);
    s.output("y");
    EXPECT_TRUE(mentions(Imported(s).messages, "attribute num_scan_inputs: expected 1 to 1"));
  }
}

TEST(BadInput, TablesAndSequencesAreBounded) {
  for (bool sizes : {false, true}) {
    TestModel m;
    m.input("x", {"2147483648"});
    onnx::TensorProto *one = m.graph.add_initializer();
    one->set_name("one");
    one->set_data_type(onnx::TensorProto::INT64);
    one->add_int64_data(1);
    m.node("SplitToSequence", {"x", sizes ? "one" : ""}, {"s"});
    m.node("SequenceLength", {"s"}, {"y"});
    m.output("y");
    EXPECT_TRUE(mentions(Imported(m).messages, "expected at most 16384 pieces, found 2147483648"));
  }
  TestModel overflow;
  overflow.input("x", {"4"});
  ints(overflow.graph, "sizes", {INT64_MAX, INT64_MAX});
  overflow.node("SplitToSequence", {"x", "sizes"}, {"s"});
  overflow.node("SequenceLength", {"s"}, {"y"});
  overflow.output("y");
  EXPECT_TRUE(mentions(Imported(overflow).messages, "expected sizes that add up to 4"));
  TestModel pool;
  pool.input("x", {"1", "1", "65536", "65536"});
  set(pool.node("MaxPool", {"x"}, {"y", "i"}), "kernel_shape", std::vector<int64_t>{2, 2});
  pool.output("y");
  EXPECT_TRUE(mentions(Imported(pool).messages, "result Indices needs at most 16777216"));
}

TEST(BadInput, SplitIntoNothing) {
  TestModel m;
  m.input("x", {"2", "8"});
  m.node("Split", {"x"}, {});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "expected at least one output"));
}

TEST(BadInput, OfNoElementsOtherExtentsMayBeLarge) {
  TestModel m;
  m.input("x", {"1", "0", "1099511627776", "1099511627776"});
  m.input("lengths", {"0"}, onnx::TensorProto::INT64);
  m.node("ReverseSequence", {"x", "lengths"}, {"y"});
  m.output("y");
  Imported i(m); // checks that a model or an error comes out
  const int64_t shape[] = {0, int64_t(1) << 40, int64_t(1) << 40};
  EXPECT_EQ(Tensor(Element::F32, shape).size(), 0);
}

TEST(BadInput, StatesOfRecurrencesHaveTheirShapes) {
  for (const char *wrong : {"initial", "peepholes"}) {
    TestModel m;
    m.input("x", {"1", "2", "4"});
    weight(m.graph, "w", {1, 12, 4}, 1);
    weight(m.graph, "r", {1, 12, 3}, 1);
    weight(m.graph, "s", {1}, 1);
    const bool state = wrong[0] == 'i';
    m.node("LSTM", {"x", "w", "r", "", "", state ? "s" : "", "", state ? "" : "s"}, {"y"});
    m.output("y");
    EXPECT_TRUE(mentions(Imported(m).messages, "operand 's': expected extents [1, ")) << wrong;
  }
}

TEST(BadInput, StateOfLinearAttentionHasItsShape) {
  TestModel m(27);
  m.input("x", {"4", "8", "8"});
  m.input("beta", {"4", "8", "1"});
  auto *n = m.node("LinearAttention", {"x", "x", "x", "x", "x", "beta"}, {"y", "state"});
  set(n, "q_num_heads", 1);
  set(n, "kv_num_heads", 1);
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "operand 'x': expected extents [4, 1, 8, 8]"));
}

TEST(BadInput, CountsOfNGrams) {
  struct Case {
    int64_t skips, start, column;
    const char *message, *items = "12";
  };
  for (const Case &c :
       {Case{int64_t(1) << 40, 0, 3, ""}, Case{INT64_MAX, 0, 3, ""},
        Case{INT64_MAX, 0, 3, "max_skip_count", "1099511627776"},
        Case{4000, 0, 3, "max_skip_count", "9000"}, Case{1000, 0, 3, "", "9000"},
        Case{0, INT64_MIN, 3, "do not fit each other"},
        Case{0, 0, int64_t(1) << 40, "attribute ngram_indexes: expected columns from 0 to"}}) {
    TestModel m;
    m.input("x", {c.items}, onnx::TensorProto::INT64);
    auto *n = m.node("TfIdfVectorizer", {"x"}, {"y"});
    set(n, "mode", "TF");
    set(n, "min_gram_length", 1);
    set(n, "max_gram_length", 2);
    set(n, "max_skip_count", c.skips);
    set(n, "ngram_counts", std::vector<int64_t>{c.start, 2});
    set(n, "ngram_indexes", std::vector<int64_t>{0, 1, c.column});
    set(n, "pool_int64s", std::vector<int64_t>{2, 3, 5, 6});
    m.output("y");
    Imported i(m);
    EXPECT_TRUE(mentions(i.messages, c.message)) << c.message;
    EXPECT_EQ(bool(i), !*c.message) << i.messages;
  }
}

TEST(BadInput, CountsOfSplits) {
  for (int64_t limit : {int64_t(1) << 40, INT64_MAX}) { // as many as there are without a limit
    TestModel m(20);
    m.input("x", {"2"}, onnx::TensorProto::STRING);
    set(m.node("StringSplit", {"x"}, {"y", "count"}), "maxsplit", limit);
    m.output("count");
    Imported i(m);
    EXPECT_TRUE(i) << i.messages;
  }
}

TEST(BadInput, PlacesAndSizesAreNumbers) {
  TestModel m(18);
  m.input("x", {"2", "4"}, onnx::TensorProto::STRING);
  onnx::TensorProto *words = m.graph.add_initializer();
  words->set_name("words");
  words->set_data_type(onnx::TensorProto::STRING);
  words->add_dims(1);
  words->add_string_data("2");
  m.node("SplitToSequence", {"x", "words"}, {"s"});
  m.node("SequenceLength", {"s"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages,
                       "operand 'words': expected real numbers or booleans, found tensor<1x"));
  m.graph.mutable_node(0)->set_op_type("SequenceConstruct");
  m.graph.mutable_node(1)->set_op_type("SequenceAt");
  m.graph.mutable_node(1)->add_input("words");
  EXPECT_TRUE(mentions(Imported(m).messages, "operand 'words': expected real numbers or booleans"));
}

TEST(BadInput, WeightsMustFitTheirShape) {
  TestModel m;
  auto *t = m.graph.add_initializer();
  t->set_name("w");
  t->set_data_type(onnx::TensorProto::FLOAT);
  t->add_dims(3);
  t->set_raw_data("12345678");
  m.node("Relu", {"w"}, {"y"});
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "holds 8 bytes, expected 12"));
  t->set_data_type(77);
  EXPECT_TRUE(mentions(Imported(m).messages, "unknown element type 77"));
}

TEST(BadInput, Opsets) {
  EXPECT_TRUE(mentions(Imported(TestModel(0)).messages, "opset 0 is not supported"));
  TestModel old(3); // operators that changed since are refused one by one
  old.input("x", {"2"});
  old.node("Not", {"x"}, {"y"});
  old.node("Relu", {"x"}, {"z"});
  EXPECT_TRUE(mentions(Imported(old).messages, "not supported: Relu of opset 3 ×1"));
  TestModel young(99);
  young.input("x", {"2"});
  young.node("Relu", {"x"}, {"y"});
  young.output("y");
  Imported i(young);
  EXPECT_TRUE(i);
  EXPECT_TRUE(mentions(i.messages, "warning: opset 99 is newer"));
}

TEST(BadInput, ManyCallsOfFunctionsEnd) {
  // Each function calls the next one twice: 2^60 nodes when written out.
  TestModel m;
  for (int k = 0; k < 60; ++k) {
    auto *f = m.proto.add_functions();
    f->set_domain("local");
    f->set_name("F" + std::to_string(k));
    f->add_input("x");
    f->add_output("y");
    for (int call = 0; call < 2; ++call) {
      auto *n = f->add_node();
      n->set_op_type(k == 59 ? "Relu" : "F" + std::to_string(k + 1));
      n->set_domain(k == 59 ? "" : "local");
      n->add_input(call ? "t" : "x");
      n->add_output(call ? "y" : "t");
    }
  }
  m.input("x", {"1"});
  m.node("F0", {"x"}, {"y"})->set_domain("local");
  m.output("y");
  EXPECT_TRUE(mentions(Imported(m).messages, "nodes after functions are expanded"));
}

//===----------------------------------------------------------------------===//
// External data
//===----------------------------------------------------------------------===//

class ExternalData : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("tenon-external", root));
    folder = (root + "/model").str();
    ASSERT_FALSE(llvm::sys::fs::create_directory(folder));
    for (const std::string &file : {folder + "/inside.bin", (root + "/outside.bin").str()}) {
      const float data[] = {1, 2, 3};
      std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char *>(data), 12);
    }
    ASSERT_FALSE(llvm::sys::fs::create_link(root + "/outside.bin", folder + "/link.bin"));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(root); }

  Imported read(const std::string &location, const std::string &offset = "4") {
    TestModel m;
    auto *t = m.graph.add_initializer();
    t->set_name("w");
    t->set_data_type(onnx::TensorProto::FLOAT);
    t->add_dims(2);
    t->set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char *key, const std::string &value) {
      auto *entry = t->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    add("offset", offset);
    m.node("Neg", {"w"}, {"y"});
    m.output("y");
    return Imported(m, {}, folder);
  }

  llvm::SmallString<128> root;
  std::string folder;
};

TEST_F(ExternalData, IsReadFromTheFolder) {
  Imported i = read("inside.bin");
  ASSERT_TRUE(i) << i.messages;
  EXPECT_EQ(values(i.run({})[0]), std::vector<double>({-2, -3}));
}

TEST_F(ExternalData, MustStayInTheFolder) {
  EXPECT_TRUE(mentions(read("../outside.bin").messages, "must not leave the model's folder"));
  EXPECT_TRUE(mentions(read("sub/../../outside.bin").messages, "must not leave"));
  EXPECT_TRUE(mentions(read((root + "/outside.bin").str()).messages, "must be a relative path"));
  EXPECT_TRUE(mentions(read("link.bin").messages, "a link that leaves the model's folder"));
  EXPECT_TRUE(mentions(read("").messages, "is not a file name"));
  EXPECT_TRUE(mentions(read(".").messages, "is a link that leaves")) << "the folder itself";
}

TEST_F(ExternalData, MustBeLongEnough) {
  EXPECT_TRUE(mentions(read("inside.bin", "8").messages, "is too short"));
  EXPECT_TRUE(mentions(read("inside.bin", "18446744073709551615").messages, "is too short"));
  EXPECT_TRUE(mentions(read("inside.bin", "many").messages, "expected a number"));
  EXPECT_TRUE(mentions(read("missing.bin").messages, "does not exist"));
}

} // namespace
