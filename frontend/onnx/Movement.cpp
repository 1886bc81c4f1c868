// Imports operators that take, join, repeat or pad elements by a rule known at compile time.
#include "frontend/DataExtents.h"
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"

#include "ir/ops/Ops.h"

#include "onnx-ml.pb.h"

namespace tenon::frontend {

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

Value *sliceAlong(Builder &b, Value *v, int64_t axis, Dim start, Dim size, int64_t step) {
  if (!v)
    return nullptr;
  Type t = v->type();
  Dims starts(t.rank(), b.context().dim(0)), sizes(t.shape().begin(), t.shape().end());
  Ints steps(t.rank(), 1);
  starts[size_t(axis)] = start;
  sizes[size_t(axis)] = size;
  steps[size_t(axis)] = step;
  return b.value(Op::Slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

namespace {

constexpr int64_t kLongestStep = int64_t(1) << 41; // twice the largest extent

/// `index` with negative values counted from the end of `extent`.
Dim fromEnd(Dim index, Dim extent) {
  if (index.lower() >= 0)
    return index;
  if (index.upper() < 0)
    return index + extent;
  const Dim zero = index.node()->context->dim(0);
  const Dim isNegative = min(max(zero - index, zero), zero + 1);
  return index + extent * isNegative;
}

/// Operand `i`, starts or ends along `axes`. Numbers that the data decide and that nothing else
/// bounds are cut off one beyond the ends of their axes, where every further one means the same.
llvm::Optional<Shape> sliceBounds(Node &n, unsigned i, llvm::ArrayRef<int64_t> axes) {
  Value *v = n.input(i);
  const Type t = v->type();
  if (!isInteger(t.element()) || t.rank() != 1 || t.elements() != n.dim(int64_t(axes.size())) ||
      hasBounds(n, v))
    return n.shapeOperand(i);
  Tensor low(Element::I64, {int64_t(axes.size())}), high = low;
  for (size_t k = 0; k < axes.size(); ++k) {
    auto axis = n.axis(axes[k], n.rank(0));
    if (!axis)
      return llvm::None;
    const int64_t extent = n.type(0).dim(unsigned(*axis)).upper();
    low.setInt(int64_t(k), -extent - 1);
    high.setInt(int64_t(k), extent);
  }
  Value *cut =
      n.b.pointwise(Op::Clamp, {n.b.cast(v, Element::I64), n.b.constant(low), n.b.constant(high)});
  if (!cut)
    return llvm::None;
  cut->setHint(v->hint());
  return dataExtents(n, cut);
}

} // namespace

void importSlice(Node &n) {
  Shape starts, ends;
  Ints axes, steps;
  auto lift = [&](const Ints &values, Shape &out) {
    for (int64_t v : values)
      out.push_back(n.dim(v));
  };
  if (n.opset < 10) {
    lift(n.intsAttr("starts"), starts);
    lift(n.intsAttr("ends"), ends);
    axes = n.hasAttr("axes") ? n.intsAttr("axes") : allAxes(0, int64_t(starts.size()));
  } else {
    if (!n.has(1) || !n.has(2)) {
      n.error("operands starts and ends are missing: expected both; write them");
      return;
    }
    axes = allAxes(0, n.rank(1) == 1 && n.type(1).dim(0).isConstant() ? n.type(1).dim(0).constant()
                                                                      : 0);
    if (n.has(3)) {
      auto given = n.intsOperand(3);
      if (!given)
        return;
      axes = *given;
    }
    auto from = sliceBounds(n, 1, axes);
    auto to = from ? sliceBounds(n, 2, axes) : llvm::None;
    if (!to)
      return;
    starts = *from;
    ends = *to;
    if (n.has(4)) {
      auto given = n.intsOperand(4);
      if (!given)
        return;
      steps = *given;
    }
  }
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    n.error("expected as many starts, ends, axes and steps, found " +
            std::to_string(starts.size()) + ", " + std::to_string(ends.size()) + ", " +
            std::to_string(axes.size()) + " and " + std::to_string(steps.size()));
    return;
  }
  const unsigned rank = n.rank(0);
  Dims first(rank, n.dim(0)), sizes(n.type(0).shape().begin(), n.type(0).shape().end());
  Ints stride(rank, 1);
  llvm::SmallVector<bool, 6> seen(rank, false);
  for (size_t i = 0; i < starts.size(); ++i) {
    auto axis = n.axis(axes[i], rank);
    if (!axis)
      return;
    const size_t d = size_t(*axis);
    if (seen[d] || steps[i] == 0) {
      n.error(seen[d] ? "axes name dimension " + std::to_string(d) + " twice"
                      : "step 0 goes nowhere");
      return;
    }
    seen[d] = true;
    // Steps beyond any extent take one element; clamped, they cannot overflow.
    const int64_t step = std::clamp<int64_t>(steps[i], -kLongestStep, kLongestStep);
    Dim extent = sizes[d], zero = n.dim(0);
    Dim from = fromEnd(starts[i], extent), to = fromEnd(ends[i], extent);
    if (step > 0) {
      from = min(max(from, zero), extent);
      to = min(max(to, zero), extent);
      sizes[d] = max(ceilDiv(to - from, step), zero);
    } else { // from the start down to the end, exclusive; −1 stands for before the first
      from = min(max(from, n.dim(-1)), extent - 1);
      to = min(max(to, n.dim(-1)), extent - 1);
      sizes[d] = max(ceilDiv(from - to, -step), zero);
      from = max(from, zero);
    }
    first[d] = sizes[d].isConstant(0) ? zero : from;
    stride[d] = step;
  }
  n.set(0, n.b.value(Op::Slice, {n.input(0)},
                     {{"starts", first}, {"sizes", sizes}, {"steps", stride}}));
}

namespace {
/// Of parts that data decide, which add up to the extent: each is at most what those before it
/// leave, and the last one is all of that, here and for whoever reads the list later. So what joins
/// all parts has the extent again, whatever the data are.
void closeParts(Node &n, int64_t axis, Shape &sizes) {
  Builder &b = n.b;
  Value *list = n.graph.state.pinned(n.input(1));
  Value *rest = extentProduct(b, n.input(0), {axis}, list->type().element());
  Dim left = n.type(0).dim(unsigned(axis));
  llvm::SmallVector<Value *, 8> parts;
  for (size_t i = 0; i + 1 < sizes.size() && rest; ++i) {
    Value *part = sliceAlong(b, list, 0, n.dim(int64_t(i)), n.dim(1), 1);
    part = part ? b.reshape(part, {}) : nullptr;
    const Dim most = min(sizes[i], left);
    if (part && most != sizes[i])
      part = b.pointwise(Op::Min, {part, rest});
    if (!part)
      return;
    parts.push_back(b.reshape(part, {n.dim(1)}));
    rest = b.pointwise(Op::Sub, {rest, part});
    left = left - most;
    sizes[i] = most;
  }
  if (!rest)
    return;
  parts.push_back(b.reshape(rest, {n.dim(1)}));
  Value *closed = b.value(Op::Concat, parts, {{"axis", int64_t(0)}});
  if (!closed)
    return;
  closed->setHint(list->hint());
  n.graph.state.pin(n.input(1), closed);
  sizes.back() = left;
}
} // namespace

void importSplit(Node &n) {
  if (!n.checkRank(0, 1))
    return;
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis)
    return;
  Dim extent = n.type(0).dim(unsigned(*axis));
  const int64_t parts = n.numOutputs();
  Shape sizes;
  if (n.opset < 13 && n.hasAttr("split")) {
    for (int64_t s : n.intsAttr("split"))
      sizes.push_back(n.dim(s));
  } else if (n.opset >= 13 && n.has(1)) {
    const bool known = bool(knownShape(n.graph.state.pinned(n.input(1))));
    auto given = n.shapeOperand(1);
    if (!given)
      return;
    sizes = *given;
    if (!known && int64_t(sizes.size()) == parts && parts > 1 && !sizes.back().isConstant())
      closeParts(n, *axis, sizes);
  } else {
    if (n.hasAttr("num_outputs") && n.intAttr("num_outputs", 0) != parts) {
      n.error("attribute num_outputs: expected " + std::to_string(parts) + ", found " +
              std::to_string(n.intAttr("num_outputs", 0)));
      return;
    }
    if (!parts) {
      n.error("expected at least one output");
      return;
    }
    // Equal parts; the last one takes what is left (opset 18 allows a smaller one).
    Dim chunk = ceilDiv(extent, parts);
    for (int64_t i = 0; i + 1 < parts; ++i)
      sizes.push_back(chunk);
    sizes.push_back(extent - chunk * (parts - 1));
    if (extent.isConstant() && n.opset < 18 && extent.constant() % parts) {
      n.error("extent " + text({extent}, "") + " does not divide into " + std::to_string(parts) +
              " equal parts");
      return;
    }
  }
  Dim total = n.dim(0);
  bool negative = false;
  for (Dim s : sizes) {
    total = total + s;
    negative |= s.upper() < 0;
  }
  if (int64_t(sizes.size()) != parts || negative ||
      (total.isConstant() && extent.isConstant() && total != extent)) {
    n.error("expected " + std::to_string(parts) + " parts that add up to " + text({extent}, "") +
            ", found [" + text(sizes, ", ") + "]");
    return;
  }
  Dim start = n.dim(0);
  for (unsigned i = 0; i < sizes.size(); ++i) {
    n.set(i, sliceAlong(n.b, n.input(0), *axis, start, sizes[i], 1));
    start = start + sizes[i];
  }
}

//===----------------------------------------------------------------------===//
// Larger tensors
//===----------------------------------------------------------------------===//

namespace {
/// `v` with the extents of `like` in all dimensions but `axis`. ONNX demands that they agree; where
/// data decide them that is not known when compiling, and what is too long is cut, what is too
/// short filled with zeros. Others stay as they are.
Value *fitted(Node &n, Value *v, llvm::ArrayRef<Dim> like, unsigned axis) {
  const Type t = v->type();
  Dims sizes(t.shape().begin(), t.shape().end()), none(t.rank(), n.dim(0)), missing = none;
  for (unsigned d = 0; d < t.rank(); ++d) {
    const Dim found = t.dim(d);
    const bool spelled = !found.isConstant() && !like[d].isConstant() && sameExtent(found, like[d]);
    if (d == axis || found == like[d] || spelled ||
        (!n.graph.state.isBorn(found) && !n.graph.state.isBorn(like[d])))
      continue;
    sizes[d] = like[d];
    missing[d] = max(like[d] - found, n.dim(0));
  }
  if (llvm::makeArrayRef(sizes) == t.shape())
    return v;
  if (missing != none)
    v = n.b.value(Op::Pad, {v}, {{"low", none}, {"high", missing}, {"mode", Word{"constant"}}});
  return v ? n.b.value(Op::Slice, {v},
                       {{"starts", none}, {"sizes", sizes}, {"steps", Ints(t.rank(), 1)}})
           : nullptr;
}
} // namespace

void importConcat(Node &n) {
  for (unsigned i = 0; i < n.numInputs(); ++i)
    if (!n.has(i)) {
      n.error("operand " + std::to_string(i) +
              " is missing: expected it in this operator; write it");
      return;
    }
  auto axis = n.axis(n.intAttr("axis", 1), n.rank(0));
  if (!axis)
    return;
  // The extents that all have: known ones rather than those that data decide.
  Dims common(n.type(0).shape().begin(), n.type(0).shape().end());
  const bool sameRank =
      llvm::all_of(n.inputs(), [&](Value *v) { return v->type().rank() == common.size(); });
  for (Value *v : n.inputs())
    for (unsigned d = 0; sameRank && d < common.size(); ++d)
      if (n.graph.state.isBorn(common[d]) && !n.graph.state.isBorn(v->type().dim(d)))
        common[d] = v->type().dim(d);
  Elements parts;
  for (Value *v : n.inputs()) {
    parts.push_back(sameRank ? fitted(n, v, common, unsigned(*axis)) : v);
    if (!parts.back())
      return;
  }
  n.set(0, n.b.value(Op::Concat, parts, {{"axis", *axis}}));
}

void importExpand(Node &n) {
  auto wanted = n.shapeOperand(1);
  if (!wanted)
    return;
  Shape shape;
  bool fits = broadcastShapes({n.type(0).shape(), llvm::ArrayRef<Dim>(*wanted)}, shape);
  for (Dim d : shape)
    fits &= d.upper() >= 0;
  if (!fits) {
    n.error("expected a shape that " + toString(n.type(0)) + " broadcasts with, found [" +
            text(*wanted, ", ") + "]");
    return;
  }
  // What is expanded to its own shape stays the value that others know (a mask that selects).
  const bool same = n.type(0).shape() == llvm::ArrayRef<Dim>(shape);
  n.set(0, same ? n.input(0) : n.b.broadcastTo(n.input(0), shape));
}

void importTile(Node &n) {
  auto repeats = n.shapeOperand(1);
  if (!repeats)
    return;
  Type t = n.type(0);
  if (repeats->size() != t.rank()) {
    n.error("expected " + std::to_string(t.rank()) + " repeats, found " +
            std::to_string(repeats->size()));
    return;
  }
  // A repeated dimension becomes (repeats, extent), where the operand does not follow the first.
  IndexMap map;
  Shape space, shape;
  for (unsigned d = 0; d < t.rank(); ++d) {
    Dim r = (*repeats)[d];
    if (r.upper() < 0) {
      n.error("repeats [" + text(*repeats, ", ") + "] are negative");
      return;
    }
    if (!r.isConstant(1))
      space.push_back(r);
    map.push_back(int64_t(space.size()));
    space.push_back(t.dim(d));
    shape.push_back(r * t.dim(d));
  }
  if (space.size() == t.rank()) {
    n.set(0, n.input(0));
    return;
  }
  Value *v = pointwise(n.b, {n.input(0)}, {map}, space,
                       [](Scalars &, llvm::ArrayRef<Value *> a) { return a[0]; });
  n.set(0, n.b.reshape(v, shape));
}

namespace {
/// What is cut off an operand, and put around the rest; per dimension.
struct Frame {
  Dims starts, sizes, low, high;

  Frame(const Node &n, Type t)
      : starts(t.rank(), n.dim(0)), sizes(t.shape().begin(), t.shape().end()), low(starts),
        high(starts) {}
};

Value *framed(Node &n, Value *v, const Frame &frame, Value *value, const std::string &mode) {
  const Type t = v->type();
  const Dims none(t.rank(), n.dim(0));
  if (frame.starts != none || llvm::makeArrayRef(frame.sizes) != t.shape())
    v = n.b.value(Op::Slice, {v},
                  {{"starts", frame.starts}, {"sizes", frame.sizes}, {"steps", Ints(t.rank(), 1)}});
  if (!v || (frame.low == none && frame.high == none))
    return v;
  llvm::SmallVector<Value *, 2> operands{v};
  if (value && mode == "constant")
    operands.push_back(value);
  return n.b.value(Op::Pad, operands,
                   {{"low", frame.low}, {"high", frame.high}, {"mode", Word{mode}}});
}

/// pad with `low` and `high` per dimension, negative ones cutting off: which of both they do the
/// values of open extents may decide.
Value *padOrCut(Node &n, Value *v, const Dims &low, const Dims &high, Value *value,
                const std::string &mode) {
  Frame frame(n, v->type());
  for (size_t d = 0; d < low.size(); ++d) {
    // Written in the same maximum, what is put there and what is cut off cancel in the result.
    frame.low[d] = max(low[d], n.dim(0));
    frame.high[d] = max(high[d], n.dim(0));
    frame.starts[d] = frame.low[d] - low[d];
    for (const Dim cut : {frame.starts[d], frame.high[d] - high[d]})
      frame.sizes[d] = max(frame.sizes[d] - cut, n.dim(0));
  }
  return framed(n, v, frame, value, mode);
}
} // namespace

void importPad(Node &n) {
  const std::string mode = n.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    n.error("attribute mode: expected constant, edge, reflect or wrap, found '" + mode + "'");
    return;
  }
  const unsigned rank = n.rank(0);
  Shape pads;
  Ints axes = allAxes(0, rank);
  Value *value = nullptr;
  if (n.opset < 11 && n.proto.domain() != "com.microsoft") {
    for (int64_t p : n.intsAttr("pads"))
      pads.push_back(n.dim(p));
    const double fill = n.floatAttr("value", 0);
    if (fill != 0)
      value = n.b.scalarConstant(n.element(0), fill);
  } else {
    if (!n.has(1)) {
      n.error("operand 1 (pads) is missing: expected it in this operator; write it");
      return;
    }
    auto given = n.shapeOperand(1);
    if (!given)
      return;
    pads = *given;
    if (n.has(2)) {
      if (!n.type(2).elements().isConstant(1)) {
        n.error("operand " + n.inputName(2) + ": expected one value, found " + toString(n.type(2)));
        return;
      }
      value = n.b.reshape(n.input(2), {});
    }
    if (n.has(3)) {
      auto list = n.intsOperand(3);
      if (!list)
        return;
      axes = *list;
    }
  }
  if (pads.size() != 2 * axes.size()) {
    n.error("expected " + std::to_string(2 * axes.size()) + " pads, found " +
            std::to_string(pads.size()));
    return;
  }
  Dims low(rank, n.dim(0)), high(rank, n.dim(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = n.axis(axes[i], rank);
    if (!axis)
      return;
    low[size_t(*axis)] = pads[i];
    high[size_t(*axis)] = pads[i + axes.size()];
  }
  const auto known = value ? knownTensor(value) : llvm::None;
  if (known) // what computes it would hide it where nothing folds
    value = n.b.constant(*known);
  if (mode != "constant" || !value || known) {
    n.set(0, padOrCut(n, n.input(0), low, high, value, mode));
    return;
  }
  // A value known only at run time is chosen where the pad has put nothing.
  Value *everywhere =
      n.b.broadcastTo(n.b.scalarConstant(Element::Bool, 1), n.input(0)->type().shape());
  Value *inside = padOrCut(n, everywhere, low, high, nullptr, mode);
  Value *padded = padOrCut(n, n.input(0), low, high, nullptr, mode);
  n.set(0, inside && padded ? n.b.pointwise(Op::Select, {inside, padded, value}) : nullptr);
}

void importCenterCropPad(Node &n) {
  auto wanted = n.shapeOperand(1);
  if (!wanted)
    return;
  Ints list = n.hasAttr("axes") ? n.intsAttr("axes") : allAxes(0, n.rank(0));
  if (wanted->size() != list.size()) {
    n.error("expected " + std::to_string(list.size()) + " extents, found " +
            std::to_string(wanted->size()));
    return;
  }
  Frame frame(n, n.type(0));
  for (size_t i = 0; i < list.size(); ++i) {
    auto axis = n.axis(list[i], n.rank(0));
    if (!axis)
      return;
    const auto d = size_t(*axis);
    const Dim have = n.type(0).dim(unsigned(d)), want = (*wanted)[i], zero = n.dim(0);
    if (want.upper() < 0) {
      n.error("expected extents from 0 on, found [" + text(*wanted, ", ") + "]");
      return;
    }
    // Crops and pads alike put the smaller half first.
    frame.starts[d] = floorDiv(max(have - want, zero), 2);
    frame.sizes[d] = min(have, want);
    frame.low[d] = floorDiv(max(want - have, zero), 2);
    frame.high[d] = want - frame.sizes[d] - frame.low[d];
  }
  n.set(0, framed(n, n.input(0), frame, nullptr, "constant"));
}

} // namespace tenon::frontend
