// Defines who made what a step reads, through the views between steps: the edges of a report's
// graph.
#pragma once

#include "codegen/memory/Plan.h"

#include "llvm/Support/JSON.h"

namespace tenon {

class StepGraph {
public:
  StepGraph(Graph &graph, const Plan &plan);

  /// Where the elements of `v` come from; constants come from nowhere.
  struct Origin {
    int step = -1; // −1: an input of the graph
    unsigned input = 0;
    Type type; // of what was made there
  };
  std::vector<Origin> originsOf(const Value *v) const;

  /// The array `key` of origins of these values, each once.
  void write(llvm::json::OStream &json, llvm::StringRef key, llvm::ArrayRef<Value *> values) const;

private:
  Graph &graph_;
  llvm::DenseMap<const Operation *, int> steps_; // looked up only
};

} // namespace tenon
