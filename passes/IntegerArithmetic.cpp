// integer-arithmetic: quantised islands compute with integers.
//
//   %xf = dequantize %x, sx, zx                     %c = conv %x, %w, zx : i32
//   %wf = dequantize %w, sw                  →      %y = map %c, %b', %m { saturate(zy +
//   %c = conv %xf, %wf                                     round((c + b') · m / 2^s)) } : i8
//   %y = quantize(relu(%c + %b), sy, zy)
//
// One rule covers contractions, sums of tensors, averages and changes of scale: whatever a map
// quantises is read as a sum of integer tensors times coefficients (QuantizedForm.h) and rescaled
// in fixed point (FixedPoint.h); relu and clip become bounds of the result. Other functions of one
// tensor of bytes become tables, softmax of bytes an operation on integers (ByteFunctions.h).
// dequantize moves below operations that only move elements, quantize above concat. What stays in
// floats is recorded with its reason; its contractions at least sum integers. On targets without
// fast kernels for sums of 8-bit integers everything stays in floats. --precision is of floats: it
// says nothing of islands.
//
// Numeric rules: sums are exact; the multiplier is the double s_x · s_w / s_y in 31 bits, products
// have 64 bits, results round half to even and saturate. Targets that multiply floats faster
// (TargetTraits::floatRescale) round the multiplier to f32 and have one fused multiply-add for each
// tensor, wherever that keeps within 2^-12 of a step; powers of two stay exact. A result differs
// from that of the float graph only where rounding errors cross a boundary between two steps.
#include "passes/IntegerArithmetic.h"

#include "passes/ByteFunctions.h"
#include "passes/IntegerWeights.h"
#include "passes/Rescale.h"
#include "passes/Rewrite.h"
#include "passes/ZeroPoints.h"

#include "ir/Interpreter.h"

#include <cmath>

namespace tenon {
namespace {

int64_t wholeAt(const PerChannel &v, size_t c) { return int64_t(at(v, c)); }

/// Whether the weights can be written in 8 bits, and the target has kernels for the sums.
bool canSum(const IntegerContraction &c, const TargetTraits &target, std::string &why) {
  llvm::Optional<IntegerWeights> w;
  if (constantValue(c.w.q)) {
    w = integerWeights(c.w);
    if (!w) {
      why = "weights of more than 8 bits without their zero points";
      return false;
    }
    if (w->perChannel() && !target.zeroPointsOfChannels) {
      why = "on this target, weights with a zero point for each channel";
      return false;
    }
  }
  if (target.wideIntegerSums || (w && w->zeros.empty() && bitWidth(c.x.q->type().element()) == 8))
    return true;
  why = "on this target, sums of other than bytes times signed constants";
  return false;
}

/// `sum` less what zeroPointOffsets() says.
Value *withoutOffsets(Builder &b, const Operation &op, Value *sum, const Tensor &offsets) {
  const IndexMap map = offsets.rank() == 1 ? IndexMap{outputChannel(op)} : IndexMap{2, 3, 1};
  const llvm::ArrayRef<Dim> space = sum->type().shape();
  return b
      .map({sum, b.constant(offsets)}, {identityMap(unsigned(space.size())), map}, space,
           [](Builder &body, llvm::ArrayRef<Value *> values) {
             return llvm::SmallVector<Value *, 2>{body.scalar(Op::Sub, values)};
           })
      ->result();
}

/// The integer contraction in place of a float one. Without a zero point of x, where the target
/// wants that.
Value *buildContraction(Builder &b, Operation &op, const IntegerContraction &c,
                        PassContext &context) {
  Value *w = c.w.q;
  Value *wZero = nullptr;
  if (constantValue(c.w.q)) {
    auto weights = integerWeights(c.w);
    if (!weights)
      return nullptr;
    w = b.constant(weights->values, op.operand(1)->hint());
    wZero = weights->zeros.empty() ? nullptr : weights->zerosOperand(b);
  } else if (const int64_t zero = wholeAt(c.w.zero, 0)) {
    wZero = b.scalarConstant(w->type().element(), double(zero));
  }
  const int64_t xZero = wholeAt(c.x.zero, 0);
  llvm::SmallVector<Value *, 4> operands{c.x.q, w};
  if (const Literal l = constantValue(w);
      l && xZero && !wZero && !context.target.zeroPoints && bitWidth(l->element()) == 8)
    if (auto offsets = zeroPointOffsets(op, *l, xZero);
        offsets && context.fire("integer-arithmetic.zero-point", op))
      return withoutOffsets(b, op, b.value(op.kind(), operands, op.attributes()), *offsets);
  if (xZero || wZero)
    operands.push_back(b.scalarConstant(c.x.q->type().element(), double(xZero)));
  if (wZero)
    operands.push_back(wZero);
  return b.value(op.kind(), operands, op.attributes());
}

/// The values of an integer tensor, or of `count` of them less `zero` in a sum.
Range rangeOf(Element e, int64_t zero = 0, int64_t count = 1) {
  const int64_t low = isSignedInt(e) ? -(int64_t(1) << (bitWidth(e) - 1)) : 0;
  const int64_t high = low + (int64_t(1) << bitWidth(e)) - 1;
  return {(low - zero) * count, (high - zero) * count};
}

/// Of the sums of a product of two tensors that nothing is known of; empty where its depth is open.
ChannelRanges rangesOfProduct(Operation &op, const IntegerContraction &c) {
  const Type a = op.operand(0)->type();
  const Dim depth = a.dim(a.rank() - (op.boolAttr("trans_a") ? 2 : 1));
  if (!op.is(Op::MatMul) || !depth.isConstant())
    return {};
  const Range x = rangeOf(c.x.q->type().element(), wholeAt(c.x.zero, 0)),
              w = rangeOf(c.w.q->type().element(), wholeAt(c.w.zero, 0));
  const auto corners = {x.low * w.low, x.low * w.high, x.high * w.low, x.high * w.high};
  return {{std::min(corners) * depth.constant(), std::max(corners) * depth.constant()}};
}

/// Of an integer contraction's sums, per output channel; empty where nothing bounds them.
ChannelRanges rangesOf(Operation &op, const IntegerContraction &c) {
  Literal l = constantValue(c.w.q);
  if (!l)
    return rangesOfProduct(op, c);
  const bool matrix = op.is(Op::MatMul);
  const int64_t rank = l->rank();
  const int64_t axis = !matrix ? 0 : op.boolAttr("trans_b") ? rank - 2 : rank - 1;
  ChannelRanges ranges(static_cast<size_t>(l->shape()[size_t(axis)]));
  const Range x = rangeOf(c.x.q->type().element(), wholeAt(c.x.zero, 0));
  withInts(*l, [&](const auto &weights) {
    forEachOfChannels(l->shape(), axis, [&](int64_t i, size_t k) {
      const int64_t w = weights[i] - wholeAt(c.w.zero, k);
      ranges[k].low += std::min(w * x.low, w * x.high);
      ranges[k].high += std::max(w * x.low, w * x.high);
    });
  });
  return ranges;
}

/// Sums of 8-bit integers over windows: a reduction where one window covers everything, else a
/// depthwise convolution with ones.
Value *buildWindowSum(Builder &b, Operation &pool, Value *x) {
  Type t = x->type();
  const unsigned spatial = t.rank() - 2;
  const Ints &kernel = pool.intsAttr("kernel");
  bool whole = true;
  for (unsigned d = 0; d < spatial; ++d)
    whole &= t.dim(d + 2).isConstant(kernel[d]);
  if (whole) {
    Ints axes;
    for (unsigned d = 0; d < spatial; ++d)
      axes.push_back(d + 2);
    Value *sum = b.reduce(Op::Add, b.cast(x, Element::I32), axes, 0);
    return b.reshape(sum, pool.result()->type().shape());
  }
  Dim channels = t.dim(1);
  if (!channels.isConstant())
    return nullptr;
  llvm::SmallVector<int64_t, 6> shape{channels.constant(), 1};
  shape.append(kernel.begin(), kernel.end());
  Tensor ones(Element::I8, shape);
  for (int64_t i = 0; i < ones.size(); ++i)
    ones.setInt(i, 1);
  NamedAttributes attributes{{"groups", channels.constant()}};
  for (const char *name : {"strides", "dilations", "pads"})
    if (const Attribute *a = pool.find(name))
      attributes.insert({name, *a});
  return b.value(Op::Conv, {x, b.constant(ones)}, std::move(attributes));
}

/// The integer sum that stands behind a term.
Value *buildSum(Builder &b, Operation &op, PassContext &context) {
  std::string why;
  b.location = op.loc();
  if (op.isAny(Op::Conv, Op::MatMul))
    return buildContraction(b, op, *matchIntegerContraction(op, why), context);
  Dequantized x;
  if (!matchIntegerReduction(op, x, why))
    return nullptr;
  if (op.is(Op::Pool))
    return buildWindowSum(b, op, x.q);
  return b.reduce(Op::Add, b.cast(x.q, Element::I32), op.intsAttr("axes"), 0);
}

ChannelRanges rangesOf(const IntegerTerm &t) {
  std::string why;
  if (t.factor) {
    const Range a = rangeOf(t.tensor->type().element(), int64_t(t.zero[0]));
    const Range b = rangeOf(t.factor->type().element(), t.factorZero);
    auto corners = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    return {{std::min(corners), std::max(corners)}};
  }
  if (!t.isSum())
    return {rangeOf(t.tensor->type().element())};
  Operation &op = *t.tensor->def();
  if (op.isAny(Op::Conv, Op::MatMul))
    return rangesOf(op, *matchIntegerContraction(op, why));
  Dequantized x;
  const int64_t count = *matchIntegerReduction(op, x, why);
  return {rangeOf(x.q->type().element(), 0, count)};
}

/// Whether a sum only hands on a tensor of the result's own type.
bool changesNothing(const QuantizedSum &q, const RescalePlan &plan, Type result) {
  const IntegerTerm &t = q.sum.terms[0];
  const Element e = result.element();
  const int64_t low = isSignedInt(e) ? -(int64_t(1) << (bitWidth(e) - 1)) : 0;
  return q.sum.terms.size() == 1 && !t.factor && t.tensor->type() == result &&
         isIdentityMap(t.map, result.rank()) && t.zero.size() == 1 &&
         int64_t(t.zero[0]) == q.zero && t.coefficient.size() == 1 && t.coefficient[0] == q.scale &&
         plan.addend.empty() && llvm::all_of(plan.bias, [](int64_t v) { return v == 0; }) &&
         plan.low == low && plan.high == low + (int64_t(1) << bitWidth(e)) - 1;
}

bool canSum(const QuantizedSum &q, const TargetTraits &target, std::string &why) {
  return llvm::all_of(q.sum.terms, [&](const IntegerTerm &t) {
    return !t.isSum() || !t.tensor->def()->isAny(Op::Conv, Op::MatMul) ||
           canSum(*matchIntegerContraction(*t.tensor->def(), why), target, why);
  });
}

// quantize(Σ coefficient · (integers − zero) + constant) = a rescaled integer sum
bool rescalePattern(Operation &op, Rewriter &rw) {
  std::string why;
  auto q = matchQuantizedSum(op, why);
  if (!q)
    return false;
  const Type result = op.result()->type();
  std::vector<ChannelRanges> ranges;
  for (const IntegerTerm &t : q->sum.terms)
    ranges.push_back(rangesOf(t));
  auto plan = planRescale(*q, result.element(), ranges, why);
  if (!plan)
    return false;
  if (!canSum(*q, rw.context().target, why) || !rw.fire(op))
    return false;
  if (changesNothing(*q, *plan, result)) {
    return rw.replace(op, q->sum.terms[0].tensor);
  }
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 4> tensors;
  for (const IntegerTerm &t : q->sum.terms) {
    Value *v = t.isSum() ? buildSum(b, *t.tensor->def(), rw.context()) : t.tensor;
    if (!v)
      return false;
    tensors.push_back(v);
  }
  b.location = op.loc();
  for (const std::string &node : q->sum.nodes)
    mergeLocation(b.location, {node});
  RescaleForm form = RescaleForm::Wide;
  if (plan->floatProducts && rw.context().target.floatRescale &&
      rw.context().fire("integer-arithmetic.float-products", op))
    form = RescaleForm::Float;
  else if (plan->highProducts && rw.context().fire("integer-arithmetic.mul-high", op))
    form = RescaleForm::High;
  else if (plan->shortProducts && rw.context().fire("integer-arithmetic.short-products", op))
    form = RescaleForm::Short;
  Value *y = buildRescale(b, *q, *plan, form, tensors, result);
  return rw.replace(op, y);
}

/// dequantize of `q` with the parameters of `like`, along `axis` of q.
Value *buildDequantize(Builder &b, Value *q, const Dequantized &like, int64_t axis) {
  llvm::SmallVector<Value *, 3> operands{q};
  std::vector<IndexMap> maps{identityMap(q->type().rank())};
  const Element e = q->type().element();
  auto parameter = [&](const PerChannel &v, Element type) {
    if (v.size() == 1)
      return;
    Tensor t(type, {int64_t(v.size())});
    t.fromDoubles(0, int64_t(v.size()), v.data());
    operands.push_back(b.constant(t));
    maps.push_back({axis});
  };
  parameter(like.scale, Element::F32);
  parameter(like.zero, e);
  llvm::SmallVector<Dim, 6> space(q->type().shape().begin(), q->type().shape().end());
  Operation *map = b.map(operands, maps, space, [&](Builder &body, llvm::ArrayRef<Value *> args) {
    size_t next = 1;
    Value *s =
        like.scale.size() == 1 ? body.scalarConst(Element::F32, like.scale[0]) : args[next++];
    Value *z = like.zero.size() > 1 ? args[next]
               : isFloat(e)         ? body.scalarConst(e, like.zero[0])
                                    : body.scalarInt(e, int64_t(like.zero[0]));
    return llvm::SmallVector<Value *, 2>{body.scalar(Op::Dequantize, {args[0], s, z})};
  });
  return map ? map->result() : nullptr;
}

/// A copy of `op` with operand 0 replaced; evaluated at once when that is a constant.
Value *moved(Builder &b, Operation &op, Value *q) {
  llvm::SmallVector<Value *, 4> operands = op.operands();
  operands[0] = q;
  Value *v = b.value(op.kind(), operands, op.attributes());
  Literal l = v ? constantValue(q) : nullptr;
  llvm::SmallVector<Tensor, 1> results;
  std::string error;
  if (l && operands.size() == 1 && evaluateConstant(*v->def(), {*l}, results, error))
    return b.constant(results[0], v->hint());
  return v;
}

// move(dequantize x) = dequantize(move x); also maxima of windows, for scales are positive
bool movementPattern(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Transpose, Op::Reshape, Op::Slice, Op::Pad, Op::Gather, Op::Pool))
    return false;
  auto d = matchDequantized(op.operand(0));
  if (!d || !(d->scale[0] > 0))
    return false;
  int64_t axis = -1;
  if (!d->perTensor()) {
    if (!op.is(Op::Transpose))
      return false;
    const Ints &perm = op.intsAttr("perm");
    axis = llvm::find(perm, d->axis) - perm.begin();
  }
  if (op.is(Op::Pool) && op.wordAttr("kind") != "max")
    return false;
  Value *fill = nullptr;
  if (op.is(Op::Pad) && op.wordAttr("mode", "constant") == "constant") {
    // Zero is the one real number that every scale can say.
    auto value = op.numOperands() > 1 ? splatValue(op.operand(1)) : llvm::Optional<double>(0.0);
    if (!value || *value != 0)
      return false;
  }
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  Value *y = nullptr;
  if (op.is(Op::Pad) && op.wordAttr("mode", "constant") == "constant") {
    fill = b.scalarConstant(d->q->type().element(), d->zero[0]);
    y = b.value(Op::Pad, {d->q, fill}, op.attributes());
  } else {
    y = moved(b, op, d->q);
  }
  y = y ? buildDequantize(b, y, *d, axis) : nullptr;
  return rw.replace(op, y);
}

// quantize(concat(dequantize a, b…)) = concat(quantize(dequantize a), quantize b…)
bool concatPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map) || op.numOperands() != 1 || op.numResults() != 1)
    return false;
  Operation *q = op.region().terminator()->operand(0)->def();
  Operation *concat = op.operand(0)->def();
  if (!q || !q->is(Op::Quantize) || q->operand(0) != op.region().argument(0) || !concat ||
      !concat->is(Op::Concat) || !isIdentityMap(indexMap(op, 0), op.result()->type().rank()) ||
      llvm::none_of(concat->operands(), [](Value *v) { return matchDequantized(v).hasValue(); }) ||
      !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 4> parts;
  for (Value *v : concat->operands()) {
    llvm::SmallVector<Dim, 6> space(v->type().shape().begin(), v->type().shape().end());
    Operation *part =
        b.map({v}, {identityMap(v->type().rank())}, space,
              [&](Builder &body, llvm::ArrayRef<Value *> args) {
                std::map<const Value *, Value *> values{{op.region().argument(0), args[0]}};
                llvm::SmallVector<int64_t, 6> dims(space.size(), -1);
                inlineBody(op.region(), body, values, dims);
                return llvm::SmallVector<Value *, 2>{values[q->result()]};
              });
    if (!part)
      return false;
    parts.push_back(part->result());
  }
  return rw.replace(op, b.value(Op::Concat, parts, concat->attributes()));
}

// contraction(dequantize x, dequantize w) = dequantize(integer contraction): what is not quantised
bool contractPattern(Operation &op, Rewriter &rw) {
  std::string why;
  if (!op.isAny(Op::Conv, Op::MatMul))
    return false;
  auto c = matchIntegerContraction(op, why);
  if (!c || !canSum(*c, rw.context().target, why) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  Value *sum = buildContraction(b, op, *c, rw.context());
  if (!sum)
    return false;
  Dequantized d;
  d.scale = c->coefficient;
  d.zero = {0.0};
  Value *y = buildDequantize(b, sum, d, outputChannel(op));
  return rw.replace(op, y);
}

/// Records which quantised maps still compute in floats, and why.
void reportFloats(Region &region, PassContext &context) {
  for (Operation &op : region) {
    if (holdsStructured(op))
      for (unsigned r = 0; r < op.numRegions(); ++r)
        reportFloats(op.region(r), context);
    std::string why;
    if (!op.is(Op::Map))
      continue;
    const auto sum = matchQuantizedSum(op, why);
    if ((sum && canSum(*sum, context.target, why)) || why.empty())
      continue;
    FusionDecision record;
    record.id = "integer-arithmetic.rescale";
    record.nodes = op.loc();
    record.reason = why;
    context.fusions.push_back(std::move(record));
  }
}

const Pattern kIslands[] = {
    {"integer-arithmetic.movement", movementPattern},
    {"integer-arithmetic.table", tablePattern},
    {"integer-arithmetic.softmax", quantizedSoftmaxPattern},
    {"integer-arithmetic.concat", concatPattern},
    {"integer-arithmetic.rescale", rescalePattern},
};
const Pattern kContractions[] = {
    {"integer-arithmetic.contract", contractPattern},
    {"integer-arithmetic.signed-weights", signedWeightsPattern},
};

} // namespace

bool runIntegerArithmetic(Graph &graph, PassContext &context) {
  if (!context.target.integerSums)
    return false;
  bool changed = applyPatterns(graph, context, kIslands);
  changed |= applyPatterns(graph, context, kContractions);
  reportFloats(graph.body(), context);
  return changed;
}

} // namespace tenon
