// Implements the search for integers that follow from extents.
#include "ir/Ramps.h"

#include "ir/ops/Ops.h"

namespace tenon {
namespace {

constexpr unsigned kMaxDepth = 64;

/// The dimension of `to` that `dim` of `from` becomes where extents of 1 come and go.
int movedDim(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to, int dim) {
  size_t at = 0;
  for (int d = 0; d < int(from.size()); ++d) {
    if (from[d].isConstant(1))
      continue;
    while (at < to.size() && to[at].isConstant(1))
      ++at;
    if (at == to.size() || to[at] != from[d])
      return -1;
    if (d == dim)
      return int(at);
    ++at;
  }
  return -1;
}

/// Whether a comparison of a and b holds, where bounds say so for every element.
MaybeRamp compared(Context &c, Op kind, Ramp a, Ramp b) {
  if (kind == Op::Greater || kind == Op::LessEqual)
    return compared(c, kind == Op::Greater ? Op::Less : Op::GreaterEqual, b, a);
  if (!b.isSame())
    return llvm::None;
  const Dim apart = a.base - b.base; // of the first element of a; those behind it are larger
  if (apart.lower() > 0 || (apart.lower() == 0 && kind != Op::Equal))
    return Ramp{c.dim(kind == Op::GreaterEqual)};
  if (a.isSame() && apart.isConstant(0))
    return Ramp{c.dim(1)};
  return a.isSame() && apart.upper() < 0 ? MaybeRamp(Ramp{c.dim(kind == Op::Less)}) : llvm::None;
}

/// Of scalars that wrap around, those that bounds show not to.
MaybeRamp scalar(Operation &op, llvm::ArrayRef<Ramp> x) {
  Context &c = op.result()->type().context();
  const Element element = op.result()->type().element();
  if ((!isInteger(element) && !isBool(element)) || element == Element::U64)
    return llvm::None;
  const auto fits = [&](Ramp r) -> MaybeRamp {
    const int bits = int(bitWidth(element));
    const int64_t high = bits >= 63 ? INT64_MAX : int64_t(1) << (bits - 1);
    return r.base.upper() < high && r.base.lower() > -high ? MaybeRamp(r) : llvm::None;
  };
  const bool same = llvm::all_of(x, [](Ramp r) { return r.isSame(); });
  switch (op.kind()) {
  case Op::Const: {
    const int64_t *value = op.find("value")->get<int64_t>();
    return value ? MaybeRamp(Ramp{c.dim(*value)}) : llvm::None;
  }
  case Op::Index: return Ramp{c.dim(0), int(op.intAttr("dim"))};
  case Op::Cast: return isBool(element) ? llvm::None : fits(x[0]);
  case Op::Add:
    if (!x[0].isSame() && !x[1].isSame())
      return llvm::None;
    return fits({x[0].base + x[1].base, std::max(x[0].dim, x[1].dim)});
  case Op::Sub: return x[1].isSame() ? fits({x[0].base - x[1].base, x[0].dim}) : llvm::None;
  case Op::Mul:
    for (unsigned i : {0u, 1u})
      if (x[i].isSame() && x[i].base.isConstant(1))
        return x[1 - i];
    return same ? fits({x[0].base * x[1].base}) : llvm::None;
  case Op::Relu: return x[0].base.lower() >= 0 ? MaybeRamp(x[0]) : llvm::None;
  case Op::Min: return same ? MaybeRamp(Ramp{min(x[0].base, x[1].base)}) : llvm::None;
  case Op::Max: return same ? MaybeRamp(Ramp{max(x[0].base, x[1].base)}) : llvm::None;
  case Op::Equal:
  case Op::Less:
  case Op::LessEqual:
  case Op::Greater:
  case Op::GreaterEqual: return compared(c, op.kind(), x[0], x[1]);
  case Op::LogicalNot: return same ? MaybeRamp(Ramp{x[0].base * -1 + 1}) : llvm::None;
  default: return llvm::None;
  }
}

/// Of an element, or none, for each operand of a scalar function.
MaybeRamp scalarOf(Operation &op, const llvm::DenseMap<Value *, Ramp> &values) {
  llvm::SmallVector<MaybeRamp, 3> known;
  for (Value *v : op.operands()) {
    auto it = values.find(v);
    known.push_back(it == values.end() ? llvm::None : MaybeRamp(it->second));
  }
  if (op.is(Op::Select) && known[0] && known[0]->isSame() && known[0]->base.isConstant())
    return known[known[0]->base.isConstant(0) ? 2 : 1];
  llvm::SmallVector<Ramp, 3> x;
  for (const MaybeRamp &r : known) {
    if (!r)
      return llvm::None;
    x.push_back(*r);
  }
  return scalar(op, x);
}

/// Whether a body of an accumulator and an element adds them.
bool isSum(Region &body) {
  const Operation *f = body.terminator()->operand(0)->def();
  return f && f->is(Op::Add) && &body.front() == f && f->operand(0) != f->operand(1);
}

} // namespace

MaybeRamp Ramps::of(Value *v) {
  auto it = memo_.find(v);
  if (it != memo_.end())
    return it->second;
  const Type t = v->type();
  if (!t.isTensor() || !(isInteger(t.element()) || isBool(t.element())) ||
      t.element() == Element::U64 || !v->def() || depth_ == kMaxDepth)
    return llvm::None;
  ++depth_;
  const MaybeRamp ramp = compute(v);
  --depth_;
  return memo_[v] = ramp;
}

MaybeRamp Ramps::compute(Value *v) {
  Operation &op = *v->def();
  if (v->type().hasStaticShape()) {
    const auto known = inferValue(v);
    if (known && !known->empty() && llvm::is_splat(*known))
      return Ramp{known->front()};
  }
  switch (op.kind()) {
  case Op::Map: return mapped(op, v->index());
  case Op::Reduce: return op.numOperands() == 1 && op.numResults() == 1 ? reduced(op) : llvm::None;
  case Op::Scan: return scanned(op);
  case Op::Reshape: {
    MaybeRamp x = of(op.operand(0));
    if (!x || x->isSame())
      return x;
    const int dim = movedDim(op.operand(0)->type().shape(), v->type().shape(), x->dim);
    return dim < 0 ? llvm::None : MaybeRamp(Ramp{x->base, dim});
  }
  case Op::Slice: {
    MaybeRamp x = of(op.operand(0));
    if (!x || x->isSame())
      return x;
    if (op.intsAttr("steps")[size_t(x->dim)] != 1)
      return llvm::None;
    return Ramp{x->base + op.dimsAttr("starts")[size_t(x->dim)], x->dim};
  }
  default: return llvm::None;
  }
}

MaybeRamp Ramps::mapped(Operation &op, unsigned result) {
  llvm::DenseMap<Value *, Ramp> values;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    MaybeRamp x = of(op.operand(i));
    if (!x)
      continue;
    if (!x->isSame())
      x->dim = int(op.intListsAttr("maps")[i][size_t(x->dim)]);
    values[op.region().argument(i)] = *x;
  }
  for (Operation &s : op.region()) {
    if (s.isTerminator()) {
      auto it = values.find(s.operand(result));
      return it == values.end() ? llvm::None : MaybeRamp(it->second);
    }
    if (MaybeRamp y = scalarOf(s, values))
      values[s.result()] = *y;
  }
  return llvm::None;
}

/// The sum of elements that are all the same.
MaybeRamp Ramps::reduced(Operation &op) {
  MaybeRamp x = of(op.operand(0));
  if (!x || !x->isSame() || !isSum(op.region()))
    return llvm::None;
  llvm::SmallVector<Dim, 6> space;
  std::string error;
  if (!iterationSpace(op, space, error))
    return llvm::None;
  Dim sum = x->base;
  for (int64_t axis : op.intsAttr("axes"))
    sum = sum * space[size_t(axis)];
  return Ramp{sum + int64_t(op.floatsAttr("init")[0])};
}

/// Running sums of ones.
MaybeRamp Ramps::scanned(Operation &op) {
  MaybeRamp x = of(op.operand(0));
  if (!x || !x->isSame() || !x->base.isConstant(1) || !isSum(op.region()) ||
      op.boolAttr("reverse", false))
    return llvm::None;
  const int64_t first = int64_t(op.floatAttr("init")) + (op.boolAttr("exclusive", false) ? 0 : 1);
  return Ramp{op.result()->type().context().dim(first), int(op.intAttr("axis"))};
}

} // namespace tenon
