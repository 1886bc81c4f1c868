// Imports operators on images whose channels stand last: what is written for channels behind the
// batch gets its operands so, and its result is turned back. Layout selection makes the turns
// disappear.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

void importChannelsLast(Node &n, ImportFunction import, llvm::ArrayRef<unsigned> images) {
  TensorsOrSequences items(n.items().begin(), n.items().end());
  for (unsigned i : images) {
    if (!n.has(i))
      continue;
    if (!n.checkRank(i, 2))
      return;
    Ints perm = allAxes(0, n.rank(i));
    perm.insert(perm.begin() + 1, perm.back()); // the channels
    perm.pop_back();
    items[i] = TensorOrSequence(n.b.transpose(n.input(i), perm));
  }
  Node turned(n.graph, n.proto, n.id, n.opset, items);
  import(turned);
  for (unsigned i = 0; i < n.numOutputs(); ++i) {
    auto y = turned.output(i);
    if (!y)
      continue;
    Ints perm = allAxes(0, y->tensor()->type().rank());
    perm.push_back(1);
    perm.erase(perm.begin() + 1);
    n.set(i, n.b.transpose(y->tensor(), perm));
  }
}

void importNhwcMaxPool(Node &n) {
  if (n.wants(1))
    n.error("result 1, where the maxima stand, is not supported with channels last");
  else
    importChannelsLast(n, importMaxPool, {0});
}

void importMicrosoftQLinearConv(Node &n) {
  n.boolAttr("channels_last", false) ? importChannelsLast(n, importQLinearConv, {0})
                                     : importQLinearConv(n);
}

} // namespace tenon::frontend
