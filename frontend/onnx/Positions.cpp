// Imports operators that only move elements on elements that bodies of maps do not compute with,
// text and complex numbers: what the operator does to positions says where each element comes from.
//
//   all = concat(zero, x, y…), flat;  result = all[operator(positions of x, positions of y…)]
//
// Position 0 is an element of zero bits, or of no text: what operators fill with.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

void importByPosition(Node &n, ImportFunction import) {
  const Element e =
      llvm::find_if(n.inputs(),
                    [](const Value *v) { return v && isOpaque(v->type().element()); })[0]
          ->type()
          .element();
  if (n.stringAttr("reduction", "none") != "none") {
    n.error("attribute reduction: expected none for elements of type " + name(e).str() +
            ", found '" + n.stringAttr("reduction", "") + "'");
    return;
  }
  const NamedAttributes first{{"axis", int64_t(0)}};
  Elements parts{n.b.constant(Tensor(e, {1}))};
  for (Value *v : n.inputs())
    if (v && v->type().element() == e)
      parts.push_back(n.b.reshape(v, {v->type().elements()}));
  Value *all = llvm::is_contained(parts, nullptr) ? nullptr : n.b.value(Op::Concat, parts, first);
  if (!all)
    return;
  Value *positions = generate(n.b, Element::I64, all->type().shape(),
                              [](Scalars &s, llvm::ArrayRef<Value *>) { return s.index(0); });
  TensorsOrSequences items(n.items().begin(), n.items().end());
  Dim begin = n.dim(1);
  for (TensorOrSequence &item : items) {
    Value *v = item.tensor();
    if (!positions || !v || v->type().element() != e)
      continue;
    Value *own = sliceAlong(n.b, positions, 0, begin, v->type().elements(), 1);
    item = own ? n.b.reshape(own, v->type().shape()) : nullptr;
    if (!item)
      return;
    begin = begin + v->type().elements();
  }
  Node moved(n.graph, n.proto, n.id, n.opset, items);
  import(moved);
  for (unsigned i = 0; i < n.numOutputs() && !n.failed(); ++i)
    if (auto result = moved.output(i))
      n.set(i, n.b.value(Op::Gather, {all, result->tensor()}, first));
}

} // namespace tenon::frontend
