// Implements the comparison of a module with itself after a pipeline.
#include "tests/unit/passes/Semantics.h"

#include "ir/Interpreter.h"
#include "ir/Text.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <random>

namespace tenon {
namespace {

std::string text(const Diagnostics &diagnostics) {
  std::string s;
  llvm::raw_string_ostream os(s);
  diagnostics.print(os);
  return os.str();
}

std::string compare(const Tensor &a, const Tensor &b, double tolerance) {
  if (a.element() != b.element() || a.shape() != b.shape())
    return "type or shape differs";
  if (isOpaque(a.element())) // these are moved, not computed with
    return a.sameBytes(b) ? "" : "elements differ";
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a.at(i)))
      largest = std::max(largest, std::fabs(a.at(i)));
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.at(i), y = b.at(i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                      std::fabs(x - y) <= tolerance * std::max(largest, 1e-30);
    if (!same)
      return "element " + std::to_string(i) + ": expected " + std::to_string(x) + ", found " +
             std::to_string(y);
  }
  return "";
}

} // namespace

std::vector<Tensor> seededInputs(Graph &graph, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (Value *v : graph.body().arguments()) {
    Tensor t(v->type().element(), v->type().upperShape());
    if (isComplex(t.element())) {
      const int64_t bytes = byteSize(t.element(), t.size());
      for (int64_t i = 0; i < bytes; ++i) // numbers whatever the type: no exponent is all ones
        t.mutableBytes()[i] = uint8_t(random() % 63);
      inputs.push_back(std::move(t));
      continue;
    }
    for (int64_t i = 0; i < t.size(); ++i) {
      if (t.element() == Element::String)
        t.setString(i, "word " + std::to_string(random() % 1000));
      else if (isFloat(t.element()))
        t.set(i, double(int64_t(random() % 4001) - 2000) / 1000);
      else
        t.setInt(i, int64_t(random() % (isBool(t.element()) ? 2 : 7)));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::string checkSemantics(Module &module, llvm::StringRef pipelineText, double tolerance) {
  Diagnostics diagnostics;
  Pipeline pipeline;
  PassContext context(diagnostics);
  if (!parsePipeline(pipelineText, pipeline, diagnostics))
    return text(diagnostics);
  std::unique_ptr<Module> before = module.clone();
  PassManagerOptions options;
  options.verifyEach = true;
  if (!PassManager(context, options).run(module, pipeline))
    return text(diagnostics);
  for (size_t g = 0; g < module.graphs.size(); ++g)
    for (unsigned seed : {1u, 2u}) {
      std::vector<Tensor> expected, found;
      const std::vector<Tensor> inputs = seededInputs(*before->graphs[g], seed);
      if (!interpret(*before->graphs[g], inputs, expected, diagnostics))
        return "before, graph " + before->graphs[g]->name + ": " + text(diagnostics);
      if (!interpret(*module.graphs[g], inputs, found, diagnostics))
        return "after, graph " + before->graphs[g]->name + ": " + text(diagnostics);
      for (size_t i = 0; i < expected.size(); ++i) {
        std::string difference = compare(expected[i], found[i], tolerance);
        if (!difference.empty())
          return "graph " + before->graphs[g]->name + ", output " + std::to_string(i) + ", " +
                 difference;
      }
    }
  return "";
}

} // namespace tenon
