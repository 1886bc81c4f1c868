// Imports reductions: Reduce*, ArgMax and ArgMin, softmax and its kin, cumulative sums.
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

struct Reduction {
  Ints axes;
  bool keep = true;
  /// Nothing to reduce: empty axes with noop_with_empty_axes.
  bool identity = false;
};

/// `inputSince`: the opset from which the axes are operand 1 instead of an attribute.
llvm::Optional<Reduction> readReduction(Node &n, int64_t inputSince) {
  Reduction r;
  r.keep = n.boolAttr("keepdims", true);
  Ints axes;
  if (n.opset >= inputSince) {
    if (n.has(1)) {
      auto given = n.intsOperand(1);
      if (!given)
        return llvm::None;
      axes = *given;
    }
    if (axes.empty() && n.boolAttr("noop_with_empty_axes", false)) {
      r.identity = true;
      return r;
    }
  } else {
    axes = n.intsAttr("axes");
  }
  if (axes.empty())
    axes = allAxes(0, n.rank(0));
  auto normal = n.axes(axes, n.rank(0));
  if (!normal)
    return llvm::None;
  r.axes = *normal;
  return r;
}

double largest(Element e) {
  return isFloat(e) ? INFINITY : e == Element::U64 ? double(UINT64_MAX) : double(maxInt(e));
}
double smallest(Element e) { return isFloat(e) ? -INFINITY : double(minInt(e)); }

using Body = llvm::function_ref<Value *(Scalars &, Value *)>;
Value *each(Builder &b, Value *v, Body body) {
  return v ? pointwise(b, {v}, [&](Scalars &s, llvm::ArrayRef<Value *> a) { return body(s, a[0]); })
           : nullptr;
}

/// before → reduction → after, with the dimensions kept where the node says so.
void reduceWith(Node &n, int64_t inputSince, Op combiner, double identity, Body before = nullptr,
                Body after = nullptr) {
  auto r = readReduction(n, inputSince);
  if (!r)
    return;
  Value *x = before ? each(n.b, n.input(0), before) : n.input(0);
  Value *y = r->axes.empty() ? x : n.b.reduce(combiner, x, r->axes, identity);
  if (after)
    y = each(n.b, y, after);
  n.set(0, r->keep && !r->identity ? keepDims(n.b, y, n.type(0), r->axes) : y);
}

Value *square(Scalars &s, Value *x) { return s(Op::Mul, x, x); }
Value *magnitude(Scalars &s, Value *x) { return s(Op::Abs, x); }

/// max and min of booleans are or and and.
void reduceExtreme(Node &n, bool max) {
  const Element e = n.element(0);
  if (isBool(e))
    reduceWith(n, 18, max ? Op::LogicalOr : Op::LogicalAnd, max ? 0 : 1);
  else
    reduceWith(n, 18, max ? Op::Max : Op::Min, max ? smallest(e) : largest(e));
}

/// Position of the largest (smallest) element along `axis`, which is dropped. Positions that fit
/// are compared in 32 bits, as many in a vector as there are floats.
Value *argExtreme(Builder &b, Value *x, int64_t axis, bool max, bool last) {
  if (!x)
    return nullptr;
  const Element e = x->type().element(), at = x->type().dim(unsigned(axis)).upper() <= INT32_MAX
                                                  ? Element::I32
                                                  : Element::I64;
  NamedAttributes attributes{{"maps", IntLists{identityMap(x->type().rank())}},
                             {"axes", Ints{axis}},
                             {"init", Floats{max ? smallest(e) : largest(e), 0}}};
  Operation *op = b.create(Op::Reduce, {x}, attributes, 1, [&](unsigned, Region &region) {
    Type element = Type::scalar(b.context(), e), position = Type::scalar(b.context(), at);
    Value *best = region.addArgument(element), *place = region.addArgument(position);
    Value *v = region.addArgument(element);
    Builder inner(region, b.diagnostics());
    inner.location = b.location;
    Scalars s{inner, e};
    // Equal elements are told apart by position, so that any order of folding gives the same.
    Value *here = s.cast(s.index(unsigned(axis)), at);
    Value *better = s(max ? Op::Greater : Op::Less, v, best);
    Value *tie =
        s(Op::LogicalAnd, s(Op::Equal, v, best), s(last ? Op::Greater : Op::Less, here, place));
    Value *take = s(Op::LogicalOr, better, tie);
    inner.yield({s(Op::Select, take, v, best), s(Op::Select, take, here, place)});
  });
  if (!op || at == Element::I64)
    return op ? op->result(1) : nullptr;
  return each(b, op->result(1), [](Scalars &s, Value *v) { return s.cast(v, Element::I64); });
}

void importArg(Node &n, bool max) {
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis)
    return;
  Value *y = argExtreme(n.b, n.input(0), *axis, max, n.boolAttr("select_last_index", false));
  n.set(0, n.boolAttr("keepdims", true) ? keepDims(n.b, y, n.type(0), {*axis}) : y);
}

/// Runs `body` along an axis of operand 0. Before opset 13 the operand counts as a matrix whose
/// columns are the dimensions from `axis` on.
void alongAxis(Node &n, llvm::function_ref<Value *(Value *, int64_t)> body) {
  const bool flattens = n.opset < 13;
  if (!flattens && n.rank(0) == 0) {
    n.error("expected rank 1 or more, found " + toString(n.type(0)));
    return;
  }
  const int64_t rank = n.rank(0), given = n.intAttr("axis", flattens ? 1 : -1);
  if (flattens && given == rank) { // one column
    Value *flat = n.b.reshape(n.input(0), {n.type(0).elements(), n.dim(1)});
    Value *y = flat ? body(flat, 1) : nullptr;
    n.set(0, y ? n.b.reshape(y, n.type(0).shape()) : nullptr);
    return;
  }
  auto axis = n.axis(given, rank);
  if (!axis)
    return;
  bool single = true; // all other columns have one element
  for (int64_t d = *axis + 1; d < rank; ++d)
    single &= n.type(0).dim(unsigned(d)).isConstant(1);
  if (!flattens || single) {
    n.set(0, body(n.input(0), *axis));
    return;
  }
  llvm::ArrayRef<Dim> shape = n.type(0).shape();
  Value *matrix = n.b.reshape(n.input(0), {product(n.context(), shape.take_front(size_t(*axis))),
                                           product(n.context(), shape.drop_front(size_t(*axis)))});
  Value *y = matrix ? body(matrix, 1) : nullptr;
  n.set(0, y ? n.b.reshape(y, shape) : nullptr);
}

} // namespace

void importReduceSum(Node &n) { reduceWith(n, 13, Op::Add, 0); }
void importReduceProd(Node &n) { reduceWith(n, 18, Op::Mul, 1); }
void importReduceMax(Node &n) { reduceExtreme(n, true); }
void importReduceMin(Node &n) { reduceExtreme(n, false); }
void importReduceL1(Node &n) { reduceWith(n, 18, Op::Add, 0, magnitude); }
void importReduceSumSquare(Node &n) { reduceWith(n, 18, Op::Add, 0, square); }

void importReduceL2(Node &n) {
  const Element e = n.element(0);
  reduceWith(n, 18, Op::Add, 0, square, [&](Scalars &s, Value *x) {
    // Integers have no root of their own.
    return isFloat(e) ? s(Op::Sqrt, x) : s.cast(s(Op::Sqrt, s.cast(x, Element::F64)), e);
  });
}

void importReduceLogSum(Node &n) {
  if (n.checkFloat(0))
    reduceWith(n, 18, Op::Add, 0, nullptr, [](Scalars &s, Value *x) { return s(Op::Log, x); });
}

void importReduceMean(Node &n) {
  auto r = readReduction(n, 18);
  if (!r)
    return;
  Value *y = r->axes.empty() ? n.input(0) : mean(n.b, n.input(0), r->axes);
  n.set(0, r->keep && !r->identity ? keepDims(n.b, y, n.type(0), r->axes) : y);
}

void importReduceLogSumExp(Node &n) {
  // max + log Σ exp(x − max); an infinite maximum is not subtracted, for ∞ − ∞ is no number.
  auto r = n.checkFloat(0) ? readReduction(n, 18) : llvm::None;
  if (!r)
    return;
  if (r->identity || r->axes.empty()) {
    n.set(0, n.input(0));
    return;
  }
  Value *max = n.b.reduce(Op::Max, n.input(0), r->axes, -INFINITY);
  max = each(n.b, max,
             [](Scalars &s, Value *x) { return s(Op::Select, s(Op::IsInf, x), s.c(0), x); });
  Value *shifted = pointwise(
      n.b, {n.input(0), keepDims(n.b, max, n.type(0), r->axes)},
      [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Exp, s(Op::Sub, a[0], a[1])); });
  Value *total = sum(n.b, shifted, r->axes);
  Value *y = pointwise(n.b, {total, max}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s(Op::Add, s(Op::Log, a[0]), a[1]);
  });
  n.set(0, r->keep ? keepDims(n.b, y, n.type(0), r->axes) : y);
}

void importArgMax(Node &n) { importArg(n, true); }
void importArgMin(Node &n) { importArg(n, false); }

Value *softmaxFrom(Builder &b, Value *x, int64_t axis) {
  const Type t = x->type();
  if (axis == int64_t(t.rank()) - 1)
    return b.value(Op::Softmax, {x}, {{"axis", axis}});
  Value *rows = b.reshape(x, {product(b.context(), t.shape().take_front(size_t(axis))),
                              product(b.context(), t.shape().drop_front(size_t(axis)))});
  Value *y = rows ? b.value(Op::Softmax, {rows}, {{"axis", int64_t(1)}}) : nullptr;
  return y ? b.reshape(y, t.shape()) : nullptr;
}

void importSoftmax(Node &n) {
  alongAxis(n, [&](Value *x, int64_t axis) {
    return n.b.value(Op::Softmax, {x}, {{"axis", axis}});
  });
}

void importLogSoftmax(Node &n) {
  alongAxis(n, [&](Value *x, int64_t axis) {
    return n.b.value(Op::Softmax, {x}, {{"axis", axis}, {"log", true}});
  });
}

void importHardmax(Node &n) {
  // 1 at the first largest element, 0 elsewhere.
  alongAxis(n, [&](Value *x, int64_t axis) -> Value * {
    Value *at = argExtreme(n.b, x, axis, true, false);
    if (!at)
      return nullptr;
    IndexMap others;
    for (int64_t d = 0; d < int64_t(x->type().rank()); ++d)
      if (d != axis)
        others.push_back(d);
    return pointwise(
        n.b, {at}, {others}, x->type().shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          const Element e = x->type().element();
          return s(Op::Select, s(Op::Equal, a[0], s.index(unsigned(axis))), s.c(e, 1), s.c(e, 0));
        });
  });
}

namespace {
/// Running sums or products along an axis. A vector has one: what says so need not be known.
void cumulate(Node &n, Op combiner, double identity) {
  auto given =
      n.rank(0) == 1 && !n.knownOperand(1) ? llvm::Optional<Ints>(Ints{0}) : n.intsOperand(1);
  if (!given)
    return;
  if (given->size() != 1) {
    n.error("operand " + n.inputName(1) + ": expected one axis");
    return;
  }
  auto axis = n.axis(given->front(), n.rank(0));
  if (!axis)
    return;
  n.setAll(n.b.scan(combiner, n.input(0), *axis, identity, n.boolAttr("exclusive", false),
                    n.boolAttr("reverse", false)));
}
} // namespace

void importCumSum(Node &n) { cumulate(n, Op::Add, 0); }
void importCumProd(Node &n) { cumulate(n, Op::Mul, 1); }

} // namespace tenon::frontend
