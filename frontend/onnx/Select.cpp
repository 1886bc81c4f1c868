// Imports operators that keep a number of elements which depends on the data.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "ir/Names.h"

namespace tenon::frontend {
namespace {

/// Indices of the nonzero elements of `v`, [rank, S] with a symbol of the node's own.
Value *nonZero(Node &n, Value *v) {
  Dim found = n.graph.state.newSymbol(n.context(), sanitizeName(n.id + "_count"), 0,
                                      v->type().upperElements());
  return n.b.value(Op::NonZero, {v}, {{"symbol", found.symbol().str()}});
}

} // namespace

void importNonZero(Node &n) { n.set(0, nonZero(n, n.input(0))); }

void importCompress(Node &n) {
  enum { X, Condition };
  Value *x = n.input(X);
  int64_t axis = 0;
  if (n.hasAttr("axis")) {
    auto given = n.axis(n.intAttr("axis", 0), n.rank(X));
    if (!given)
      return;
    axis = *given;
  } else {
    x = n.b.reshape(x, {x->type().elements()});
    if (!x)
      return;
  }
  // A condition may be shorter than the axis; what it does not mention goes.
  const Type condition = n.type(Condition);
  if (condition.rank() != 1 || !isBool(condition.element()) ||
      condition.dim(0).lower() > x->type().dim(unsigned(axis)).upper()) {
    n.error("operand " + n.inputName(Condition) + ": expected at most one boolean per element of " +
            "dimension " + std::to_string(axis) + " of " + toString(x->type()) + ", found " +
            toString(condition));
    return;
  }
  Value *kept = nonZero(n, n.input(Condition));
  kept = kept ? n.b.reshape(kept, {kept->type().dim(1)}) : nullptr;
  n.set(0, kept ? n.b.value(Op::Gather, {x, kept}, {{"axis", axis}}) : nullptr);
}

} // namespace tenon::frontend
