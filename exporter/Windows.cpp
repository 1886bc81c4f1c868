// Implements the export of pooling, resizing, searches, text and control flow.
#include "exporter/Writer.h"

#include "ir/Extents.h"

#include <cmath>

namespace tenon::exporter {
namespace {

/// With extents that are known, a number of windows that is rounded up comes from more padding,
/// which counts for nothing: what a window behind the end becomes is no question then, on which
/// opsets and runtimes differ. Empty where it has to stay.
Ints roundedPads(const Operation &op) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const size_t spatial = x.rank() - 2;
  auto at = [&](const char *key, size_t i, int64_t otherwise) {
    const Ints &list = op.intsAttr(key);
    return list.empty() ? otherwise : list[i];
  };
  Ints pads;
  for (size_t i = 0; i < 2 * spatial; ++i)
    pads.push_back(at("pads", i, 0));
  for (size_t i = 0; i < spatial; ++i) {
    const Dim in = x.dim(unsigned(i + 2)), out = y.dim(unsigned(i + 2));
    if (!in.isConstant() || !out.isConstant())
      return {};
    const int64_t stride = at("strides", i, 1);
    const int64_t span = (op.intsAttr("kernel")[i] - 1) * at("dilations", i, 1) + 1;
    const int64_t least = (out.constant() - 1) * stride + span - in.constant() - pads[i];
    // Padding that counts may get less, where no window reaches it, but not more.
    if (least + stride <= 0 || (op.boolAttr("count_include_pad") && least > pads[spatial + i]))
      return {};
    pads[spatial + i] = std::max<int64_t>(least, 0);
  }
  return pads;
}

bool exportPool(Operation &op, Writer &w) {
  const bool average = op.wordAttr("kind") == "average";
  const Element e = op.result()->type().element();
  Attributes a{{"kernel_shape", op.intsAttr("kernel")}};
  for (const char *key : {"strides", "dilations"})
    if (!op.intsAttr(key).empty())
      a.push_back({key, op.intsAttr(key)});
  const Ints rounded = op.boolAttr("ceil") ? roundedPads(op) : Ints();
  const Ints &pads = rounded.empty() ? op.intsAttr("pads") : rounded;
  if (!pads.empty())
    a.push_back({"pads", pads});
  if (op.boolAttr("ceil") && rounded.empty())
    a.push_back({"ceil_mode", int64_t(1)});
  if (op.boolAttr("count_include_pad"))
    a.push_back({"count_include_pad", int64_t(1)});
  // Runtimes take floats and bytes; doubles hold other integers of up to 32 bits.
  const bool widened = isInteger(e) && bitWidth(e) != 8;
  if (widened && bitWidth(e) > 32)
    return w.refuse("the maximum of windows of " + name(e));
  std::string x = w.name(op.operand(0));
  if (widened)
    x = w.cast(x, Element::F64);
  x = w.node(average ? "AveragePool" : "MaxPool", {x}, a);
  w.bind(op.result(), widened ? w.cast(x, e) : x);
  return true;
}

bool exportResize(Operation &op, Writer &w) {
  const Type t = op.operand(0)->type();
  const Dims &shape = op.dimsAttr("shape");
  const Floats &scales = op.floatsAttr("scales"), &roi = op.floatsAttr("roi");
  // Scales stand there where the extents do not say them.
  bool byScales = scales.size() == t.rank();
  for (unsigned d = 0; d < t.rank() && byScales; ++d)
    byScales = !t.dim(d).isConstant() ||
               (shape[d].isConstant() &&
                shape[d].constant() ==
                    int64_t(std::floor(double(t.dim(d).constant()) * double(float(scales[d])))));
  auto floats = [&](const Floats &values) {
    Tensor f(Element::F32, {int64_t(values.size())});
    for (size_t i = 0; i < values.size(); ++i)
      f.set(int64_t(i), values[i]);
    return w.constant(f);
  };
  Attributes a{{"mode", op.wordAttr("mode").str()},
               {"coordinate_transformation_mode", op.wordAttr("coordinates", "half_pixel").str()}};
  if (op.wordAttr("mode") == "nearest")
    a.push_back({"nearest_mode", op.wordAttr("nearest", "round_prefer_floor").str()});
  if (op.wordAttr("mode") == "cubic")
    a.push_back({"cubic_coeff_a", op.floatAttr("cubic_a", -0.75)});
  if (op.has("extrapolation"))
    a.push_back({"extrapolation_value", op.floatAttr("extrapolation")});
  for (const char *key : {"exclude_outside", "antialias"})
    if (op.boolAttr(key))
      a.push_back({key, int64_t(1)});
  const bool crop = op.wordAttr("coordinates") == "tf_crop_and_resize";
  const std::string region = crop ? floats(roi) : "";
  w.bind(op.result(),
         byScales ? w.node("Resize", {w.name(op.operand(0)), region, floats(scales)}, a)
                  : w.node("Resize", {w.name(op.operand(0)), region, "", w.shape(shape)}, a));
  return true;
}

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

bool exportIf(Operation &op, Writer &w) {
  onnx::GraphProto branches[2];
  std::string cond = w.name(op.operand(0));
  if (op.operand(0)->type().rank())
    cond = w.reshape(cond, {});
  for (unsigned b = 0; b < 2; ++b) {
    Region &region = op.region(b);
    w.beginGraph(branches[b]);
    for (unsigned i = 0; i < region.numArguments(); ++i)
      w.alias(region.argument(i), op.operand(i + 1));
    if (!w.operations(region))
      return false;
    for (Value *v : region.terminator()->operands())
      w.graphOutput(w.name(v), v->type());
    w.endGraph();
  }
  const Names made =
      w.nodes("If", {cond}, {{"then_branch", &branches[0]}, {"else_branch", &branches[1]}},
              op.numResults());
  w.keep();
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

bool exportLoop(Operation &op, Writer &w) {
  Region &region = op.region();
  const auto carried = unsigned(op.intAttr("carried"));
  // Of one element, and in the body of no dimension: what the values' types say is made of them.
  auto one = [&](const Value *v) {
    return v->type().rank() ? w.reshape(w.name(v), {}) : w.name(v);
  };
  Names inputs{one(op.operand(0)), one(op.operand(1))};
  for (unsigned i = 0; i < carried; ++i)
    inputs.push_back(w.name(op.operand(2 + i)));
  for (unsigned i = 2 + carried; i < op.numOperands(); ++i)
    w.name(op.operand(i)); // constants of the body are known outside
  onnx::GraphProto body;
  w.beginGraph(body);
  for (unsigned i = 0; i < 2; ++i) {
    const Type t = region.argument(i)->type();
    const std::string x = w.graphInput(t.withShape({}), i ? "again" : "iteration");
    w.bind(region.argument(i), t.rank() ? w.reshape(x, t.shape()) : x);
  }
  for (unsigned i = 0; i < carried; ++i)
    w.bind(region.argument(2 + i), w.graphInput(region.argument(2 + i)->type(), "carried"));
  for (unsigned i = 2 + carried; i < region.numArguments(); ++i)
    w.alias(region.argument(i), op.operand(i));
  if (!w.operations(region))
    return false;
  Operation *end = region.terminator();
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    const Value *v = end->operand(i);
    w.graphOutput(i ? w.name(v) : one(v), i ? v->type() : v->type().withShape({}));
  }
  w.endGraph();
  const Names made = w.nodes("Loop", inputs, {{"body", &body}}, op.numResults());
  w.keep();
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.bind(op.result(i), made[i]);
  return true;
}

} // namespace

bool exportWindow(Operation &op, Writer &w) {
  return op.is(Op::Pool) ? exportPool(op, w) : exportResize(op, w);
}

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

bool exportText(Operation &op, Writer &w) {
  const llvm::StringRef function = op.is(Op::TextMap) ? op.wordAttr("function") : "";
  if (function == "number" || function == "digits")
    return w.bind(op.result(), w.cast(w.name(op.operand(0)), op.result()->type().element())), true;
  if (function == "equal" || function == "concat") {
    w.bind(op.result(), w.node(function == "equal" ? "Equal" : "StringConcat",
                               {w.name(op.operand(0)), w.name(op.operand(1))}));
    return true;
  }
  if (function == "match") {
    w.bind(op.result(), w.node("RegexFullMatch", {w.name(op.operand(0))},
                               {{"pattern", op.stringAttr("pattern").str()}}));
    return true;
  }
  return w.refuse("the function " + (function.empty() ? "split" : function) + " of text");
}

bool exportControl(Operation &op, Writer &w) {
  if (op.is(Op::If))
    return exportIf(op, w);
  if (op.is(Op::Loop))
    return exportLoop(op, w);
  if (op.numRegions() == 0)
    return w.refuse("the operator " + op.stringAttr("name") +
                    " is the user's, and has no body of others");
  // A kernel is what it computes; so is an operator of the user's with a reference body.
  for (unsigned i = 0; i < op.numOperands(); ++i)
    w.alias(op.region().argument(i), op.operand(i));
  if (!w.operations(op.region()))
    return false;
  for (unsigned i = 0; i < op.numResults(); ++i)
    w.alias(op.result(i), op.region().terminator()->operand(i));
  return true;
}

} // namespace tenon::exporter
