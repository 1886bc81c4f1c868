// Reductions.
//
//   reduce (x…) {maps, axes, init} { (acc…, a…) … yield acc… }
// folds the iteration dimensions in `axes` away: starting from `init`, the combiner takes the
// accumulators so far and one element of each operand. It must be associative and commutative up
// to rounding, with `init` as identity, so that targets may split and reorder the fold; results
// over an empty range are `init`. Several accumulators make ArgMax, Welford or online softmax.
// Iteration space and maps are those of map; results keep the other dimensions in order. Keeping
// reduced dimensions is a reshape, a mean is a map behind it.
//
//   scan (x) {axis, init, exclusive, reverse} { (before, a) … yield combined }
// running folds along `axis`: element i of a result is the combination of init with the elements of
// x up to i, with `exclusive` without the one at i, with `reverse` from the end on. The combiner
// takes and gives x's type, the element nearer to where the scan begins first. It must be
// associative up to rounding, with `init` as identity, so that targets may combine runs; it need
// not commute.
//
//   softmax (x) {axis, log}
// exp(x − max) / Σ exp(x − max) along `axis`, or its logarithm. The maximum is subtracted first, so
// no finite input overflows.
//
//   quantized_softmax (x) {axis, table, multiplier, shift, zero, to}
// softmax of 8-bit integers in integers, with d = largest − x and table[d] for e^(−scale · d):
// zero + round(table[d] / Σ table[d] · multiplier / 2^shift), saturated. The quotient goes by a
// factor of the whole line, so no element is divided; every step is exact, as docs/quantisation.md
// says, and targets give the same bits.
//
//   normalize (x) {axes, epsilon, centered}
// (x − mean) / √(mean of (x − mean)² + epsilon) over `axes`; without `centered` the mean is taken
// as 0 (root mean square). Computed, and given, in f32 (f64 for f64): statistics of narrow types
// overflow. Scale and bias are maps behind it.
//
// Numeric rules. The interpreter accumulates sums, products, softmax and statistics in double and
// rounds once; integers wrap in the accumulator's width. Targets accumulate floats in f32 (f64 for
// f64) in any order.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferReduce(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  llvm::SmallVector<Dim, 6> space;
  if (!iterationSpace(op, space, error) || !checkBody(op, space.size(), error))
    return false;
  const Ints &axes = op.intsAttr("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!checkAxis(axes[i], unsigned(space.size()), "reduced axis", error))
      return false;
    if (i && axes[i] <= axes[i - 1])
      return fail(error, "attribute axes: expected ascending axes without repetition");
  }
  const size_t n = op.floatsAttr("init").size();
  if (n == 0)
    return fail(error, "attribute init: expected one identity per result, found none");
  Region &body = op.region();
  if (body.numArguments() != n + op.numOperands())
    return fail(error, "expected " + llvm::Twine(n) + " accumulators and " +
                           llvm::Twine(op.numOperands()) + " elements as body arguments, found " +
                           llvm::Twine(body.numArguments()));
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type a = body.argument(unsigned(n) + i)->type();
    Type scalar = Type::scalar(a.context(), op.operand(i)->type().element());
    if (a != scalar)
      return fail(error, "body argument " + llvm::Twine(n + i) + ": expected " + toString(scalar) +
                             ", found " + toString(a));
  }
  Operation *end = regionEnd(op, 0, error);
  if (!end)
    return false;
  if (end->numOperands() != n)
    return fail(error, "body yields " + llvm::Twine(end->numOperands()) + " values: expected " +
                           llvm::Twine(n) + " accumulators");
  llvm::SmallVector<Dim, 6> kept;
  for (size_t d = 0; d < space.size(); ++d)
    if (!llvm::is_contained(axes, int64_t(d)))
      kept.push_back(space[d]);
  for (unsigned i = 0; i < n; ++i) {
    Type a = body.argument(i)->type();
    if (!a.isScalar() || isOpaque(a.element()) || end->operand(i)->type() != a)
      return fail(error, "accumulator " + llvm::Twine(i) + ": body takes " + toString(a) +
                             " and yields " + toString(end->operand(i)->type()) +
                             ": expected one type of numbers or booleans");
    results.push_back(Type::tensor(a.context(), a.element(), kept));
  }
  return true;
}

bool inferScan(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  if (isOpaque(t.element()))
    return fail(error, "expected a tensor of numbers or booleans, found " + toString(t));
  if (!checkAxis(op.intAttr("axis"), t.rank(), "axis", error))
    return false;
  Region &body = op.region();
  Operation *end = regionEnd(op, 0, error);
  if (!end)
    return false;
  const Type scalar = Type::scalar(t.context(), t.element());
  bool fits = body.numArguments() == 2 && end->numOperands() == 1;
  for (unsigned i = 0; fits && i < 2; ++i)
    fits = body.argument(i)->type() == scalar;
  if (!fits || end->operand(0)->type() != scalar)
    return fail(error, "expected a body that combines two values of type " + toString(scalar) +
                           " into one");
  for (Operation &s : body)
    if (s.is(Op::Index))
      return fail(error, "the body asks for a position, which combined values have not");
  results.push_back(logical(t));
  return true;
}

bool inferSoftmax(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  if (!isFloat(t.element()))
    return fail(error, "expected a floating-point tensor, found " + toString(t));
  if (!checkAxis(op.intAttr("axis"), t.rank(), "axis", error))
    return false;
  results.push_back(logical(t));
  return true;
}

/// Sums of entries stay below 2^31.
bool checkQuantizedSoftmax(const Operation &op, int64_t length, std::string &error) {
  const Ints &table = op.intsAttr("table");
  if (table.size() != 256 || table[0] < 1 ||
      llvm::any_of(table, [&](int64_t v) { return v < 0 || v > table[0]; }))
    return fail(error, "attribute table: expected 256 entries from 0 to the first, which is not 0");
  if (length > (int64_t(1) << 31) / table[0])
    return fail(error, "attribute table: expected sums of " + llvm::Twine(length) +
                           " entries to stay within 2^31, found a first entry of " +
                           llvm::Twine(table[0]));
  const int64_t multiplier = op.intAttr("multiplier"), shift = op.intAttr("shift");
  if (multiplier < int64_t(1) << 30 || multiplier >= int64_t(1) << 31)
    return fail(error, "attribute multiplier: expected 31 bits, found " + llvm::Twine(multiplier));
  if (shift < 0 || shift > 31)
    return fail(error, "attribute shift: expected 0 to 31, found " + llvm::Twine(shift));
  return true;
}

bool inferQuantizedSoftmax(const Operation &op, llvm::SmallVectorImpl<Type> &results,
                           std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  const Type to = *op.find("to")->get<Type>();
  if (!isInteger(t.element()) || bitWidth(t.element()) != 8)
    return fail(error, "expected a tensor of 8-bit integers, found " + toString(t));
  if (!to.isScalar() || !isInteger(to.element()) || bitWidth(to.element()) != 8)
    return fail(error, "attribute to: expected i8 or u8, found " + toString(to));
  if (!checkAxis(op.intAttr("axis"), t.rank(), "axis", error) ||
      !checkQuantizedSoftmax(op, t.dim(unsigned(op.intAttr("axis"))).upper(), error))
    return false;
  results.push_back(Type::tensor(t.context(), to.element(), t.shape()));
  return true;
}

bool inferNormalize(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  if (!isFloat(t.element()))
    return fail(error, "expected a floating-point tensor, found " + toString(t));
  const Ints &axes = op.intsAttr("axes");
  if (axes.empty())
    return fail(error, "attribute axes: expected at least one dimension, found none");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!checkAxis(axes[i], t.rank(), "normalised axis", error))
      return false;
    if (i && axes[i] <= axes[i - 1])
      return fail(error, "attribute axes: expected ascending axes without repetition");
  }
  if (!(op.floatAttr("epsilon") >= 0))
    return fail(error, "attribute epsilon: expected a number of 0 or more, found " +
                           std::to_string(op.floatAttr("epsilon")));
  results.push_back(Type::tensor(t.context(), computeElement(t.element()), t.shape()));
  return true;
}

const llvm::StringRef kElements[] = {"x…"};
const llvm::StringRef kX[] = {"x"};
const AttrInfo kReduce[] = {
    {"maps", AttrKind::IntLists, true, "index maps, as in map"},
    {"space", AttrKind::Dims, false, "extents of the iteration space, where operands do not say"},
    {"axes", AttrKind::Ints, true, "iteration dimensions that are folded away, ascending"},
    {"init", AttrKind::Floats, true, "identity of the combiner, one per result"},
};
const AttrInfo kScan[] = {
    {"axis", AttrKind::Int, true, "dimension along which values are combined"},
    {"init", AttrKind::Float, true, "identity of the combiner"},
    {"exclusive", AttrKind::Bool, false, "leave out the element itself (default false)"},
    {"reverse", AttrKind::Bool, false, "begin at the end (default false)"},
};
const AttrInfo kSoftmax[] = {
    {"axis", AttrKind::Int, true, "dimension along which the result adds up to 1"},
    {"log", AttrKind::Bool, false, "give the logarithm (default false)"},
};
const AttrInfo kQuantizedSoftmax[] = {
    {"axis", AttrKind::Int, true, "dimension along which the result adds up to 1"},
    {"table", AttrKind::Ints, true, "exponentials of 0 to −255 steps, in units of the first"},
    {"multiplier", AttrKind::Int, true, "steps of the result in 1, in 31 bits"},
    {"shift", AttrKind::Int, true, "binary digits of the multiplier behind the point"},
    {"zero", AttrKind::Int, true, "zero point of the result"},
    {"to", AttrKind::Type, true, "i8 or u8"},
};
const AttrInfo kNormalize[] = {
    {"axes", AttrKind::Ints, true, "dimensions that share one mean and deviation, ascending"},
    {"epsilon", AttrKind::Float, true, "added to the variance"},
    {"centered", AttrKind::Bool, true, "subtract the mean"},
};

} // namespace

llvm::ArrayRef<OpRow> reductionOps() {
  static const OpRow kRows[] = {
      {Op::Reduce,
       {"reduce", "Folds dimensions of an iteration space with an associative combiner.", kElements,
        kReduce, kVariadic, 1, OpTrait::Isolated, inferReduce, nullptr, evaluateReduce}},
      {Op::Scan,
       {"scan", "Running folds along one dimension with an associative combiner.", kX, kScan, 1, 1,
        OpTrait::Isolated, inferScan, nullptr, evaluateScan}},
      {Op::Softmax,
       {"softmax", "Normalised exponentials along one dimension.", kX, kSoftmax, 1, 0,
        OpTrait::None, inferSoftmax, nullptr, evaluateSoftmax}},
      {Op::QuantizedSoftmax,
       {"quantized_softmax", "Softmax of 8-bit integers, in integers.", kX, kQuantizedSoftmax, 1, 0,
        OpTrait::None, inferQuantizedSoftmax, nullptr, evaluateQuantizedSoftmax}},
      {Op::Normalize,
       {"normalize", "Zero mean and unit variance over some dimensions.", kX, kNormalize, 1, 0,
        OpTrait::None, inferNormalize, nullptr, evaluateNormalize}},
  };
  return kRows;
}

} // namespace tenon
