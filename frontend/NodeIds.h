// Defines the stable ids of nodes: what locations, overrides, reports and messages call them.
#pragma once

#include "frontend/Proto.h"

#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace tenon::frontend {

/// An id is the node's name, or `Op_k` with its position k in the file's list; inside a subgraph
/// or function it is a path, `If_3/then_branch/Conv_0`. Repetitions get a suffix: `conv`, `conv_2`.
class NodeIds {
public:
  /// Ids for the nodes of one graph, in file order.
  std::vector<std::string> assign(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                                  llvm::StringRef path);

  /// How many ids are taken, and giving back all but the first so many.
  size_t taken() const { return order_.size(); }
  void release(size_t taken);

private:
  llvm::StringSet<> taken_;
  std::vector<llvm::StringRef> order_; // keys of taken_
};

/// `text` with bytes that are not UTF-8 replaced.
std::string validUtf8(llvm::StringRef text);

} // namespace tenon::frontend
