// Implements the export of operations whose results depend on which elements they find: the
// largest, those that are not zero, classes, boxes; and of shapes, which are asked for at run time,
// too.
#include "exporter/Writer.h"

namespace tenon::exporter {
namespace {

/// Indices of the boxes taken, by batch entry and class, from ONNX's list of (entry, class, box).
bool exportSuppression(Operation &op, Writer &w) {
  const Type scores = op.operand(1)->type();
  const Dim classes = scores.dim(1), k = op.dimsAttr("k")[0], lists = scores.dim(0) * classes;
  Names inputs{w.name(op.operand(0)), w.name(op.operand(1)), w.extent(k),
               w.scalar(Element::F32, op.floatAttr("iou_threshold"))};
  if (op.has("score_threshold"))
    inputs.push_back(w.scalar(Element::F32, op.floatAttr("score_threshold")));
  const std::string taken =
      w.node("NonMaxSuppression", inputs, {{"center_point_box", int64_t(op.boolAttr("center"))}});
  auto column = [&](int64_t i) {
    return w.node("Squeeze",
                  {w.node("Slice", {taken, w.integers({i}), w.integers({i + 1}), w.integers({1})}),
                   w.integers({1})});
  };
  // The place of a box in its list is its number less that of the list's first.
  const std::string list =
      w.node("Add", {w.node("Mul", {column(0), w.extent(classes)}), column(1)});
  const std::string at = w.node("Unsqueeze", {list, w.integers({1})});
  auto filled = [&](Dim n, int64_t value) {
    return w.node("Expand", {w.integers({value}), w.extent(n)});
  };
  const std::string ones = w.node("Expand", {w.integers({1}), w.node("Shape", {list})});
  const std::string counts =
      w.node("ScatterND", {filled(lists, 0), at, ones}, {{"reduction", std::string("add")}});
  const std::string first =
      w.node("CumSum", {counts, w.scalar(Element::I64, 0)}, {{"exclusive", int64_t(1)}});
  const std::string number =
      w.node("Sub", {w.node("CumSum", {ones, w.scalar(Element::I64, 0)}), w.integers({1})});
  const std::string place = w.node("Sub", {number, w.node("Gather", {first, list})});
  const std::string to = w.node(
      "Unsqueeze", {w.node("Add", {w.node("Mul", {list, w.extent(k)}), place}), w.integers({1})});
  const std::string all = w.node("ScatterND", {filled(lists * k, -1), to, column(2)});
  w.bind(op.result(), w.reshape(all, op.result()->type().shape()));
  return true;
}

/// Classes by row, then their first rows and numbers of rows, which what is behind them fills up.
bool exportUnique(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  const Element e = t.element();
  std::string x = w.name(op.operand(0));
  if (isBool(e) || (isInteger(e) && e != Element::I64 && e != Element::I8))
    x = w.cast(x, Element::I64);
  else if (isFloat(e) && bitWidth(e) < 32)
    x = w.cast(x, Element::F32);
  const Names made = w.nodes(
      "Unique", {x}, {{"axis", int64_t(0)}, {"sorted", int64_t(op.boolAttr("sorted", true))}}, 4);
  const std::string room = w.node("Sub", {w.extent(t.dim(0)), w.node("Shape", {made[1]})});
  const std::string pads = w.node("Concat", {w.integers({0}), room}, {{"axis", int64_t(0)}});
  Names rows;
  for (auto &[values, fill] : {std::pair<unsigned, double>{2, 0}, {1, -1}, {3, 0}}) {
    std::string row = made[values];
    if (values != 2)
      row = w.node("Pad", {row, pads, w.scalar(Element::I64, fill)});
    rows.push_back(w.node("Unsqueeze", {row, w.integers({0})}));
  }
  w.bind(op.result(), w.node("Concat", rows, {{"axis", int64_t(0)}}));
  return true;
}

} // namespace

bool exportSearch(Operation &op, Writer &w) {
  const std::string x = w.name(op.operand(0));
  const Element e = op.operand(0)->type().element();
  switch (op.kind()) {
  case Op::ShapeOf: w.bind(op.result(), w.node("Shape", {x})); return true;
  case Op::NonZero: {
    const bool known = e == Element::F32 || e == Element::I32 || e == Element::I64 || isBool(e);
    w.bind(op.result(), w.node("NonZero", {known ? x : w.cast(x, Element::Bool)}));
    return true;
  }
  case Op::TopK: {
    const bool narrow = isInteger(e) && bitWidth(e) < 32;
    const Names made = w.nodes(
        "TopK", {narrow ? w.cast(x, Element::I32) : x, w.extent(op.dimsAttr("k")[0])},
        {{"axis", op.intAttr("axis")}, {"largest", int64_t(op.boolAttr("largest", true))}}, 2);
    w.bind(op.result(1), made[1]);
    w.bind(op.result(0), narrow ? w.cast(made[0], e) : made[0]);
    return true;
  }
  case Op::NonMaxSuppression: return exportSuppression(op, w);
  default: return exportUnique(op, w);
  }
}

} // namespace tenon::exporter
