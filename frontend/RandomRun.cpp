// Implements the number of the run, which random numbers depend on: which graphs need it, and how
// it becomes a state of the module.
#include "frontend/GraphImporter.h"

namespace tenon::frontend {

bool ModelImport::drawsRandom(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  return llvm::any_of(nodes, [&](const onnx::NodeProto &node) {
    if (drawsNumbers(node))
      return true;
    const auto function =
        functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
    if (function != functions.end()) {
      // A function that reaches itself is refused later.
      const auto known = drawsRandom_.insert({function->second, false});
      if (known.second && drawsRandom(function->second->node()))
        drawsRandom_[function->second] = true;
      if (drawsRandom_[function->second])
        return true;
    }
    return llvm::any_of(node.attribute(), [&](const onnx::AttributeProto &a) {
      return a.has_g() && drawsRandom(a.g());
    });
  });
}

bool ModelImport::drawsRandom(const onnx::GraphProto &graph) {
  if (const auto known = drawsRandom_.find(&graph); known != drawsRandom_.end())
    return known->second;
  return drawsRandom_[&graph] = drawsRandom(graph.node());
}

namespace {
/// A name like `base` that no input or output has.
std::string unusedName(const onnx::GraphProto &graph, std::string base) {
  auto same = [&](const auto &info) { return info.name() == base; };
  while (llvm::any_of(graph.input(), same) || llvm::any_of(graph.output(), same))
    base += "_";
  return base;
}
} // namespace

Value *addRandomRun(const onnx::GraphProto &proto, Graph &graph, GraphImporter &importer) {
  const Type type = Type::tensor(importer.b.context(), Element::U64, llvm::ArrayRef<Dim>());
  Value *run = graph.body().addArgument(type, "random_run");
  graph.inputNames.push_back(unusedName(proto, "random_run"));
  importer.define(kRandomRun, run);
  return run;
}

void countRuns(const onnx::GraphProto &proto, Graph &graph, Builder &b, Value *run,
               llvm::SmallVectorImpl<Value *> &results) {
  if (!run->hasUses()) {
    graph.inputNames.pop_back();
    graph.body().eraseArgument(run->index());
    return;
  }
  State s;
  s.input = run->index();
  s.output = unsigned(results.size());
  results.push_back(b.pointwise(Op::Add, {run, b.constant(Tensor::scalar(Element::U64, 1))}));
  graph.outputNames.push_back(unusedName(proto, "random_run_next"));
  graph.states.push_back(s);
}

} // namespace tenon::frontend
