// Defines analyses of a graph's names before import: node order, and what a subgraph captures.
#pragma once

#include "frontend/Proto.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <string>
#include <vector>

namespace tenon::frontend {

/// Names that graphs use but do not define, subgraphs included, in order of first use. Computed
/// once per graph.
class FreeNames {
public:
  const std::vector<std::string> &of(const onnx::GraphProto &graph);

private:
  llvm::DenseMap<const onnx::GraphProto *, std::vector<std::string>> known_;
};

/// Positions of `nodes` in an order in which every name is defined before it is used; file order
/// wherever it allows. When there is a cycle, the result is empty and `cycle` holds the positions
/// of the nodes that cannot be ordered.
std::vector<int> sortNodes(llvm::ArrayRef<const onnx::NodeProto *> nodes, FreeNames &freeNames,
                           std::vector<int> &cycle);

} // namespace tenon::frontend
