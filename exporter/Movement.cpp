// Implements the export of operations that place elements.
#include "exporter/Writer.h"

#include "ir/Extents.h"

namespace tenon::exporter {
namespace {

bool exportSlice(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  const Dims &starts = op.dimsAttr("starts"), &sizes = op.dimsAttr("sizes");
  const Ints &steps = op.intsAttr("steps");
  Dims from, to;
  Ints axes, by;
  for (unsigned d = 0; d < t.rank(); ++d) {
    if (starts[d].isConstant(0) && steps[d] == 1 && sizes[d] == t.dim(d))
      continue;
    Dim end = starts[d] + sizes[d] * steps[d];
    if (steps[d] < 0) {
      // An end before the first element: what is below every index, and counts from no end.
      if (end.isConstant() ? end.constant() < 0 : end.lower() < 0)
        end = end.isConstant() ? t.context().dim(INT64_MIN + 1) : end - t.dim(d) - 1;
      if (sizes[d].lower() < 1)
        return w.refuse("a slice backwards that may be empty");
    }
    from.push_back(starts[d]);
    to.push_back(end);
    axes.push_back(d);
    by.push_back(steps[d]);
  }
  const std::string x = w.name(op.operand(0));
  if (axes.empty())
    return w.bind(op.result(), w.node("Identity", {x})), true;
  w.bind(op.result(),
         w.node("Slice", {x, w.shape(from), w.shape(to), w.integers(axes), w.integers(by)}));
  return true;
}

bool exportPad(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  Dims pads(op.dimsAttr("low"));
  pads.insert(pads.end(), op.dimsAttr("high").begin(), op.dimsAttr("high").end());
  std::string x = w.name(op.operand(0)), value = op.numOperands() > 1 ? w.name(op.operand(1)) : "";
  // Runtimes pad integers of 32 and 64 bits, and bytes.
  const Element e = t.element(), in = isInteger(e) && bitWidth(e) == 16 ? Element::I32 : e;
  if (in != e) {
    x = w.cast(x, in);
    value = value.empty() ? value : w.cast(value, in);
  }
  x = w.node("Pad", {x, w.shape(pads), value}, {{"mode", op.wordAttr("mode", "constant").str()}});
  w.bind(op.result(), in != e ? w.cast(x, e) : x);
  return true;
}

bool exportBitcast(Operation &op, Writer &w) {
  const Element from = op.operand(0)->type().element(), to = op.result()->type().element();
  if (from == to)
    return w.bind(op.result(), w.node("Identity", {w.name(op.operand(0))})), true;
  if (!isInteger(from) || !isInteger(to))
    return w.refuse("the bits of " + name(from) + " as " + name(to));
  w.bind(op.result(), w.cast(w.name(op.operand(0)), to)); // wraps
  return true;
}

bool exportScatter(Operation &op, Writer &w) {
  // Integers that runtimes do not combine are combined in wider ones.
  const Element e = op.result()->type().element();
  const llvm::StringRef combiner = op.wordAttr("combiner", "none");
  const bool narrow = combiner != "none" && isInteger(e) && bitWidth(e) < 32;
  const unsigned rank = op.operand(1)->type().rank();
  auto as = [&](const Value *v) { return narrow ? w.cast(w.name(v), Element::I32) : w.name(v); };
  const std::string at = w.node("Unsqueeze", {w.name(op.operand(1)), w.integers({int64_t(rank)})});
  const std::string y = w.node("ScatterND", {as(op.operand(0)), at, as(op.operand(2))},
                               {{"reduction", combiner.str()}});
  w.bind(op.result(), narrow ? w.cast(y, e) : y);
  return true;
}

} // namespace

bool exportMovement(Operation &op, Writer &w) {
  switch (op.kind()) {
  case Op::Reshape:
    w.bind(op.result(), w.reshape(w.name(op.operand(0)), op.dimsAttr("shape")));
    return true;
  case Op::Transpose:
    w.bind(op.result(),
           w.node("Transpose", {w.name(op.operand(0))}, {{"perm", op.intsAttr("perm")}}));
    return true;
  case Op::Slice: return exportSlice(op, w);
  case Op::Pad: return exportPad(op, w);
  case Op::Concat: {
    Names inputs;
    for (Value *v : op.operands())
      inputs.push_back(w.name(v));
    w.bind(op.result(), w.node("Concat", inputs, {{"axis", op.intAttr("axis")}}));
    return true;
  }
  case Op::Gather: {
    std::string at = w.name(op.operand(1));
    const Element e = op.operand(1)->type().element();
    if (e != Element::I32 && e != Element::I64)
      at = w.cast(at, Element::I64);
    w.bind(op.result(),
           w.node("Gather", {w.name(op.operand(0)), at}, {{"axis", op.intAttr("axis")}}));
    return true;
  }
  case Op::Scatter: return exportScatter(op, w);
  default: return exportBitcast(op, w);
  }
}

} // namespace tenon::exporter
