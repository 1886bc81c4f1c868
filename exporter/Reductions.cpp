// Implements the export of reductions and scans: ONNX's own where the combiner is one that it has,
// else its Scan, with the combiner as body.
#include "exporter/Body.h"

#include "ir/Extents.h"

namespace tenon::exporter {
namespace {

struct Combiner {
  const char *reduction = nullptr;
  Element in = Element::F32;    // what runtimes reduce
  Value *element = nullptr;     // what is combined
  Operation *product = nullptr; // or the product of its first two operands is
};

/// acc ⊕ f(elements), for the ⊕ that ONNX reduces by.
Combiner combinerOf(Operation &op) {
  Combiner c;
  Value *acc = op.region().argument(0);
  Operation *last = op.region().terminator()->operand(0)->def();
  if (op.numResults() != 1 || !last || !acc->hasOneUse() || acc->firstUse()->owner() != last)
    return c;
  const Element e = acc->type().element();
  const bool narrow = isInteger(e) && bitWidth(e) < 32;
  c.in = e == Element::BF16 ? Element::F32 : narrow || isBool(e) ? Element::I32 : e;
  switch (last->kind()) {
  case Op::Add: c.reduction = "ReduceSum"; break;
  case Op::Mul: c.reduction = "ReduceProd"; break;
  case Op::Max:
  case Op::LogicalOr: c.reduction = "ReduceMax"; break;
  case Op::Min:
  case Op::LogicalAnd: c.reduction = "ReduceMin"; break;
  case Op::Fma:
    if (last->operand(2) == acc) {
      c.reduction = "ReduceSum";
      c.product = last;
    }
    return c;
  default: return c;
  }
  if (e == Element::U32 || e == Element::U64)
    c.reduction = nullptr;
  c.element = last->operand(last->operand(0) == acc ? 1 : 0);
  return c;
}

/// Extents of the space other than those that are folded.
Space keptSpace(llvm::ArrayRef<Dim> space, llvm::ArrayRef<int64_t> axes) {
  Space kept;
  for (size_t d = 0; d < space.size(); ++d)
    if (!llvm::is_contained(axes, int64_t(d)))
      kept.push_back(space[d]);
  return kept;
}

std::string initial(double value, Element e, llvm::ArrayRef<Dim> shape, Writer &w) {
  const std::string one = w.scalar(e, value);
  return shape.empty() ? one : w.node("Expand", {one, w.shape(shape)});
}

/// Positions of every step along the folded dimension `axes[k]`: i64 [steps].
std::string positions(llvm::ArrayRef<Dim> space, const Ints &axes, size_t k, Dim steps, Writer &w) {
  std::string at = w.range(steps);
  if (axes.size() == 1)
    return at;
  for (size_t later = axes.size(); later-- > k + 1;)
    at = w.node("Div", {at, w.extent(space[size_t(axes[later])])});
  return w.node("Mod", {at, w.extent(space[size_t(axes[k])])});
}

/// A reduce by ONNX's Scan, one step for each point of the folded dimensions.
bool foldByScan(Operation &op, Writer &w) {
  const Space space = spaceOf(op);
  const Ints &axes = op.intsAttr("axes");
  const Space kept = keptSpace(space, axes);
  const unsigned states = op.numResults();
  Region &region = op.region();
  if (axes.empty())
    return w.refuse("a reduction along no dimension");
  Dim steps = space[size_t(axes[0])];
  Ints perm(axes);
  for (size_t i = 1; i < axes.size(); ++i)
    steps = steps * space[size_t(axes[i])];
  for (int64_t d = 0; d < int64_t(space.size()); ++d)
    if (!llvm::is_contained(axes, d))
      perm.push_back(d);
  Space stacked(kept);
  stacked.insert(stacked.begin(), steps);

  Names inputs;
  for (unsigned i = 0; i < states; ++i)
    inputs.push_back(
        initial(op.floatsAttr("init")[i], region.argument(i)->type().element(), kept, w));
  BodyWriter outside(w, space);
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    std::string x = outside.filled(outside.read(op.operand(i), op.intListsAttr("maps")[i]));
    inputs.push_back(w.reshape(w.transpose(x, perm), stacked));
  }
  for (size_t k = 0; k < axes.size(); ++k)
    inputs.push_back(positions(space, axes, k, steps, w));
  if (w.failed())
    return false;

  onnx::GraphProto graph;
  w.beginGraph(graph);
  BodyWriter body(w, kept);
  for (unsigned i = 0; i < region.numArguments(); ++i) {
    const Element e = region.argument(i)->type().element();
    body.set(region.argument(i), body.whole(w.graphInput(e, i < states ? "state" : "element"), e));
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    Spread s;
    s.element = Element::I64;
    s.follows.assign(kept.size(), false);
    s.name = w.graphInput(Element::I64, "position");
    body.setIndex(axes[k], s);
  }
  // Positions in the body are those of the space: kept dimensions have other numbers here.
  int64_t to = 0;
  for (int64_t d = 0; d < int64_t(space.size()); ++d)
    if (!llvm::is_contained(axes, d))
      body.setIndexFrom(d, to++);
  for (Value *v : region.terminator()->operands())
    w.graphOutput(body.filled(body.of(v)), v->type().element());
  w.endGraph();
  if (w.failed())
    return false;
  const Names made = w.nodes(
      "Scan", inputs,
      {{"body", &graph}, {"num_scan_inputs", int64_t(op.numOperands() + axes.size())}}, states);
  for (unsigned i = 0; i < states; ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

/// Over `axes`, kept with extent 1.
std::string mean(const std::string &x, const Ints &axes, Writer &w) {
  return w.node("ReduceMean", {x, w.integers(axes)}, {{"keepdims", int64_t(1)}});
}

} // namespace

bool exportReduce(Operation &op, Writer &w) {
  const Combiner c = combinerOf(op);
  const Ints &axes = op.intsAttr("axes");
  if (!c.reduction)
    return foldByScan(op, w);
  BodyWriter body(w, spaceOf(op));
  for (unsigned i = 0; i < op.numOperands(); ++i)
    body.set(op.region().argument(1 + i), body.read(op.operand(i), op.intListsAttr("maps")[i]));
  const Element e = op.result()->type().element();
  std::string x;
  if (c.product) {
    // Products are rounded before they are added.
    const std::string a = body.filled(body.of(c.product->operand(0))),
                      b = body.filled(body.of(c.product->operand(1)));
    x = w.node("Mul", {a, b});
  } else {
    x = body.filled(body.of(c.element));
  }
  if (w.failed())
    return false;
  if (c.in != e)
    x = w.cast(x, c.in);
  if (!axes.empty())
    x = w.node(c.reduction, {x, w.integers(axes)}, {{"keepdims", int64_t(0)}});
  if (c.in != e)
    x = w.cast(x, e);
  w.bind(op.result(), x);
  return true;
}

bool exportScan(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  const Element e = t.element();
  Region &region = op.region();
  const int64_t axis = op.intAttr("axis");
  const bool exclusive = op.boolAttr("exclusive"), reverse = op.boolAttr("reverse");
  Operation *combine = region.terminator()->operand(0)->def();
  const bool known =
      e == Element::F32 || e == Element::F64 || e == Element::I32 || e == Element::I64;
  if (known && combine && combine->is(Op::Add) && combine->operand(0) != combine->operand(1) &&
      !combine->operand(0)->def() && !combine->operand(1)->def()) {
    w.bind(op.result(),
           w.node("CumSum", {w.name(op.operand(0)), w.scalar(Element::I64, double(axis))},
                  {{"exclusive", int64_t(exclusive)}, {"reverse", int64_t(reverse)}}));
    return true;
  }
  const Space kept = keptSpace(Space(t.shape().begin(), t.shape().end()), {axis});
  const Names inputs{initial(op.floatAttr("init"), e, kept, w), w.name(op.operand(0))};
  onnx::GraphProto graph;
  w.beginGraph(graph);
  BodyWriter body(w, kept);
  Names given;
  for (unsigned i = 0; i < 2; ++i) {
    given.push_back(w.graphInput(e, i ? "element" : "state"));
    body.set(region.argument(i), body.whole(given[i], e));
  }
  const std::string combined = body.filled(body.of(region.terminator()->operand(0)));
  w.graphOutput(combined, e);
  w.graphOutput(exclusive ? given[0] : combined, e);
  w.endGraph();
  if (w.failed())
    return false;
  const Names made = w.nodes("Scan", inputs,
                             {{"body", &graph},
                              {"num_scan_inputs", int64_t(1)},
                              {"scan_input_axes", Ints{axis}},
                              {"scan_output_axes", Ints{axis}},
                              {"scan_input_directions", Ints{reverse}},
                              {"scan_output_directions", Ints{reverse}}},
                             2);
  w.bind(op.result(), made[1]);
  return true;
}

bool exportSoftmax(Operation &op, Writer &w) {
  w.bind(op.result(), w.node(op.boolAttr("log") ? "LogSoftmax" : "Softmax", {w.name(op.operand(0))},
                             {{"axis", op.intAttr("axis")}}));
  return true;
}

/// In i64, step by step what docs/quantisation.md says.
bool exportQuantizedSoftmax(Operation &op, Writer &w) {
  const Element in = Element::I64, to = op.result()->type().element();
  const std::string axis = w.integers({op.intAttr("axis")});
  auto number = [&](int64_t v) { return w.integers({v}); };
  auto kept = [&](const char *type, const std::string &x) {
    return w.node(type, {x, axis}, {{"keepdims", int64_t(1)}});
  };
  Extents powers, below; // 2^k, and what a sum is compared with to count its leading zeros
  for (int64_t k = 0; k < 63; ++k)
    powers.push_back(int64_t(1) << k);
  for (int64_t k = 0; k < 32; ++k)
    below.push_back(int64_t(1) << (31 - k));
  auto power = [&](const std::string &k) { return w.node("Gather", {w.integers(powers), k}); };

  const std::string x = w.cast(w.name(op.operand(0)), in);
  const std::string entries = w.node(
      "Gather", {w.integers(op.intsAttr("table")), w.node("Sub", {kept("ReduceMax", x), x})});
  const std::string sum = kept("ReduceSum", entries);
  const std::string smaller =
      w.node("Less", {w.node("Unsqueeze", {sum, number(-1)}), w.integers(below)});
  const std::string up =
      w.node("ReduceSum", {w.cast(smaller, in), number(-1)}, {{"keepdims", int64_t(0)}});
  const std::string reciprocal =
      w.node("Div", {number(int64_t(1) << 62), w.node("Mul", {sum, power(up)})});
  const std::string scaled = w.node("Mul", {reciprocal, number(op.intAttr("multiplier"))});
  const std::string factor =
      w.node("Div", {w.node("Add", {scaled, number(int64_t(1) << 30)}), number(int64_t(1) << 31)});
  const std::string unit = power(w.node("Sub", {number(op.intAttr("shift") + 31), up}));
  // Nothing is negative: quotients round down. Half goes to even.
  const std::string product = w.node("Mul", {entries, factor});
  const std::string quotient = w.node("Div", {product, unit});
  const std::string rest = w.node("Sub", {product, w.node("Mul", {quotient, unit})});
  const std::string twice = w.node("Add", {rest, rest});
  const std::string odd = w.node("Equal", {w.node("Mod", {quotient, number(2)}), number(1)});
  const std::string half = w.node("And", {w.node("Equal", {twice, unit}), odd});
  const std::string more = w.cast(w.node("Or", {w.node("Greater", {twice, unit}), half}), in);
  const std::string steps =
      w.node("Add", {w.node("Add", {quotient, more}), number(op.intAttr("zero"))});
  const std::string bounded =
      w.node("Min", {w.node("Max", {steps, number(minInt(to))}), number(maxInt(to))});
  w.bind(op.result(), w.cast(bounded, to));
  return true;
}

bool exportNormalize(Operation &op, Writer &w) {
  const Element e = op.result()->type().element();
  const Ints &axes = op.intsAttr("axes");
  std::string x = w.name(op.operand(0));
  if (op.operand(0)->type().element() != e)
    x = w.cast(x, e);
  if (op.boolAttr("centered"))
    x = w.node("Sub", {x, mean(x, axes, w)});
  const std::string variance = mean(w.node("Mul", {x, x}), axes, w);
  const std::string deviation =
      w.node("Sqrt", {w.node("Add", {variance, w.scalar(e, op.floatAttr("epsilon"))})});
  w.bind(op.result(), w.node("Div", {x, deviation}));
  return true;
}

} // namespace tenon::exporter
