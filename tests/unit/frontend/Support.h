// Helpers of the importer tests: ONNX models written in a few lines, import into text.
#pragma once

#include "frontend/Import.h"
#include "ir/Interpreter.h"
#include "ir/Text.h"
#include "ir/Verifier.h"

#include "onnx-ml.pb.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

namespace tenon::test {

/// Extents of a declared shape: a number, or a symbol's name; "" is an anonymous one.
using DeclaredShape = std::vector<std::string>;

inline void declare(onnx::ValueInfoProto *info, const std::string &name, const DeclaredShape &shape,
                    int type = onnx::TensorProto::FLOAT) {
  info->set_name(name);
  auto *tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const std::string &extent : shape) {
    auto *dim = tensor->mutable_shape()->add_dim();
    int64_t value;
    if (!llvm::StringRef(extent).getAsInteger(10, value))
      dim->set_dim_value(value);
    else if (!extent.empty())
      dim->set_dim_param(extent);
  }
}

inline onnx::NodeProto *node(onnx::GraphProto &graph, const std::string &op,
                             const std::vector<std::string> &inputs,
                             const std::vector<std::string> &outputs,
                             const std::string &name = "") {
  auto *n = graph.add_node();
  n->set_op_type(op);
  n->set_name(name);
  for (const auto &i : inputs)
    n->add_input(i);
  for (const auto &o : outputs)
    n->add_output(o);
  return n;
}

inline onnx::AttributeProto *attribute(onnx::NodeProto *n, const std::string &name) {
  auto *a = n->add_attribute();
  a->set_name(name);
  return a;
}
inline void set(onnx::NodeProto *n, const std::string &name, int64_t value) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}
inline void setFloat(onnx::NodeProto *n, const std::string &name, float value) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::FLOAT);
  a->set_f(value);
}
inline void set(onnx::NodeProto *n, const std::string &name, const std::string &value) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}
inline void set(onnx::NodeProto *n, const std::string &name, const std::vector<int64_t> &values) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values)
    a->add_ints(v);
}
inline onnx::GraphProto &setGraph(onnx::NodeProto *n, const std::string &name) {
  auto *a = attribute(n, name);
  a->set_type(onnx::AttributeProto::GRAPH);
  return *a->mutable_g();
}

inline void weight(onnx::GraphProto &graph, const std::string &name,
                   const std::vector<int64_t> &shape, float value) {
  auto *t = graph.add_initializer();
  t->set_name(name);
  t->set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t d : shape) {
    t->add_dims(d);
    count *= d;
  }
  for (int64_t i = 0; i < count; ++i)
    t->add_float_data(value);
}
inline void ints(onnx::GraphProto &graph, const std::string &name,
                 const std::vector<int64_t> &values, bool scalar = false) {
  auto *t = graph.add_initializer();
  t->set_name(name);
  t->set_data_type(onnx::TensorProto::INT64);
  if (!scalar)
    t->add_dims(int64_t(values.size()));
  for (int64_t v : values)
    t->add_int64_data(v);
}

/// A model of opset 17 to be filled.
struct TestModel {
  onnx::ModelProto proto;
  onnx::GraphProto &graph;

  explicit TestModel(int64_t opset = 17) : graph(*proto.mutable_graph()) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    graph.set_name("test");
  }
  void input(const std::string &name, const DeclaredShape &shape,
             int type = onnx::TensorProto::FLOAT) {
    declare(graph.add_input(), name, shape, type);
  }
  void output(const std::string &name) { graph.add_output()->set_name(name); }
  onnx::NodeProto *node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs, const std::string &name = "") {
    return test::node(graph, op, inputs, outputs, name);
  }
  std::string bytes() const { return proto.SerializeAsString(); }
};

/// Result of importing: the module, or the text of what was reported.
struct Imported {
  Context context;
  Diagnostics diagnostics;
  llvm::Optional<ImportedModel> model;
  std::string messages;

  explicit Imported(const std::string &bytes, const ImportOptions &options = {},
                    const std::string &folder = "") {
    if (auto parsed = OnnxModel::parse(bytes, folder, diagnostics))
      model = parsed->toModule(context, options, diagnostics);
    llvm::raw_string_ostream os(messages);
    diagnostics.print(os);
    os.flush();
    EXPECT_EQ(model.hasValue(), !diagnostics.hasErrors()) << messages;
    if (model) {
      Diagnostics verification;
      EXPECT_TRUE(verify(*model->module, verification));
      verification.print(llvm::errs());
    }
  }
  explicit Imported(const TestModel &model, const ImportOptions &options = {},
                    const std::string &folder = "")
      : Imported(model.bytes(), options, folder) {}

  explicit operator bool() const { return model.hasValue(); }
  Graph &graph() { return model->module->graph(); }
  Type outputType(unsigned i = 0) { return graph().returnOp()->operand(i)->type(); }
  /// Runs the interpreter.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) {
    std::vector<Tensor> outputs;
    Diagnostics problems;
    EXPECT_TRUE(interpret(graph(), inputs, outputs, problems));
    problems.print(llvm::errs());
    return outputs;
  }
  /// Operations of the main graph of one kind.
  std::vector<Operation *> all(Op kind) {
    std::vector<Operation *> list;
    for (Operation &op : graph().body())
      if (op.is(kind))
        list.push_back(&op);
    return list;
  }
};

inline Tensor floats(llvm::ArrayRef<int64_t> shape, const std::vector<double> &values) {
  Tensor t(Element::F32, shape);
  for (size_t i = 0; i < values.size(); ++i)
    t.set(int64_t(i), values[i]);
  return t;
}

inline std::vector<double> values(const Tensor &t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.size(); ++i)
    v.push_back(t.at(i));
  return v;
}

inline ::testing::AssertionResult mentions(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

} // namespace tenon::test
