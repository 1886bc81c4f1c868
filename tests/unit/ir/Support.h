// Defines what IR unit tests share: a graph to build into, seeded tensors, evaluation, comparison.
#pragma once

#include "ir/Builder.h"
#include "ir/Interpreter.h"
#include "ir/Verifier.h"

#include "gtest/gtest.h"

#include <cmath>

#define EXPECT_CONTAINS(TEXT, PART)                                                                \
  EXPECT_NE(std::string(TEXT).find(PART), std::string::npos) << (TEXT)

namespace tenon::test {

/// Pseudo-random numbers that are the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  double uniform() { return double(next() >> 11) / double(uint64_t(1) << 53) * 2 - 1; }

private:
  uint64_t state_;
};

inline Tensor randomTensor(Element e, llvm::ArrayRef<int64_t> shape, uint64_t seed) {
  Tensor t(e, shape);
  Random random(seed);
  for (int64_t i = 0; i < t.size(); ++i)
    if (isFloat(e))
      t.set(i, random.uniform());
    else
      t.setInt(i, random.below(1 << 20));
  return t;
}

inline Tensor tensor(Element e, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values) {
  Tensor t(e, shape);
  EXPECT_EQ(t.size(), int64_t(values.size()));
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, values[size_t(i)]);
  return t;
}

inline std::vector<double> values(const Tensor &t) {
  std::vector<double> v(static_cast<size_t>(t.size()));
  t.toDoubles(0, t.size(), v.data());
  return v;
}

using Shape = std::vector<int64_t>;
inline Shape shapeOf(const Tensor &t) { return t.shape().vec(); }

/// A graph under construction; inputs first, then ops through `b`.
struct TestGraph {
  Context context;
  Module module{context};
  Graph &graph = module.addGraph("main");
  Diagnostics diagnostics;
  Builder b{graph.body(), diagnostics};

  Dim dim(int64_t v) { return context.dim(v); }
  Dims dims(llvm::ArrayRef<int64_t> list) {
    Dims d;
    for (int64_t v : list)
      d.push_back(dim(v));
    return d;
  }
  Type type(Element e, llvm::ArrayRef<int64_t> shape) { return Type::tensor(context, e, shape); }
  Value *input(Element e, llvm::ArrayRef<Dim> shape) {
    graph.inputNames.push_back("input" + std::to_string(graph.inputNames.size()));
    return graph.body().addArgument(Type::tensor(context, e, shape));
  }
  Value *input(Element e, llvm::ArrayRef<int64_t> shape) { return input(e, dims(shape)); }
  Value *constant(const Tensor &t) { return b.constant(t); }
  void finish(llvm::ArrayRef<Value *> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i)
      graph.outputNames.push_back("output" + std::to_string(i));
    b.yield(outputs, Op::Return);
    EXPECT_TRUE(verify(graph, diagnostics)) << messages();
  }
  std::string messages() {
    std::string s;
    for (const Diagnostic &d : diagnostics.list())
      s += d.message + "\n";
    return s;
  }
  std::vector<Tensor> run(llvm::ArrayRef<Tensor> inputs, const InterpreterOptions &options = {}) {
    std::vector<Tensor> outputs;
    EXPECT_TRUE(interpret(graph, inputs, outputs, diagnostics, options)) << messages();
    return outputs;
  }
};

/// Builds one op on constant operands and gives its results.
inline std::vector<Tensor> evaluateOp(Op op, llvm::ArrayRef<Tensor> operands,
                                      llvm::function_ref<NamedAttributes(TestGraph &)> attributes) {
  TestGraph g;
  llvm::SmallVector<Value *, 4> values;
  for (const Tensor &t : operands)
    values.push_back(g.constant(t));
  Operation *made = g.b.create(op, values, attributes(g));
  EXPECT_TRUE(made) << g.messages();
  if (!made)
    return {};
  g.finish(made->results());
  return g.run({});
}

/// The message of an op that must be rejected.
inline std::string rejection(Op op, llvm::ArrayRef<Tensor> operands,
                             llvm::function_ref<NamedAttributes(TestGraph &)> attributes) {
  TestGraph g;
  llvm::SmallVector<Value *, 4> values;
  for (const Tensor &t : operands)
    values.push_back(g.constant(t));
  EXPECT_FALSE(g.b.create(op, values, attributes(g)));
  return g.messages();
}

inline void expectNear(const Tensor &found, llvm::ArrayRef<double> expected, double tolerance) {
  ASSERT_EQ(found.size(), int64_t(expected.size()));
  for (int64_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found.at(i), expected[size_t(i)], tolerance) << "element " << i;
}

} // namespace tenon::test
