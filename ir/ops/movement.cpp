// Movement: ops that place elements without computing.
//
//   reshape (x) {shape}             the same elements in row-major order under another shape
//   transpose (x) {perm}            result dimension i is operand dimension perm[i]
//   slice (x) {starts, sizes, steps}  element i along a dimension is starts + i · steps; a negative
//                                   step walks backwards from its start
//   pad (x, value?) {low, high, mode}  adds elements around x: `constant` ones (value, else 0),
//                                   `edge` repeats the border, `reflect` mirrors without it,
//                                   `wrap` continues at the other end
//   concat (x…) {axis}              operands one after the other along axis
//   gather (x, indices) {axis}      replaces dimension axis by the dimensions of indices; a
//                                   negative index counts from the end, one out of range is an
//                                   error of the caller (the interpreter reports it)
//   scatter (x, indices, updates) {combiner}  x with row indices[i] of its first dimension replaced
//                                   by, or combined with, row i of updates, in row-major order of
//                                   i; indices count from 0, and one out of range is an error of
//                                   the caller (the interpreter reports it, kernels skip the row)
//   bitcast (x) {to}                the bits of each element read as type `to` of the same width
// All take every element type, text included where nothing else is said.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

bool inferReshape(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  const Dims &shape = op.dimsAttr("shape");
  for (Dim d : shape)
    if (d.upper() < 0)
      return fail(error, "attribute shape: expected extents of at least 0, found " + text(d));
  Type result = Type::tensor(t.context(), t.element(), shape);
  if (!sameExtent(t.elements(), result.elements()))
    return fail(error, "cannot reshape " + text(t.shape()) + " to " + text(shape) + ": expected " +
                           text(t.elements()) + " elements, found " + text(result.elements()));
  results.push_back(result);
  return true;
}

bool inferTranspose(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  const Ints &perm = op.intsAttr("perm");
  if (perm.size() != t.rank())
    return fail(error, "attribute perm: expected " + llvm::Twine(t.rank()) + " dimensions, found " +
                           llvm::Twine(perm.size()));
  llvm::SmallVector<bool, 6> seen(t.rank(), false);
  llvm::SmallVector<Dim, 6> shape;
  for (int64_t d : perm) {
    if (!checkAxis(d, t.rank(), "attribute perm: dimension", error))
      return false;
    if (seen[size_t(d)])
      return fail(error, "attribute perm names dimension " + llvm::Twine(d) + " twice");
    seen[size_t(d)] = true;
    shape.push_back(t.dim(unsigned(d)));
  }
  results.push_back(Type::tensor(t.context(), t.element(), shape));
  return true;
}

/// starts, sizes, steps of one dimension against its extent, as far as they are known.
bool checkSlice(Dim extent, Dim start, Dim size, int64_t step, std::string &error) {
  if (step == 0)
    return fail(error, "attribute steps: expected a step other than 0");
  if (size.upper() < 0)
    return fail(error, "attribute sizes: expected at least 0, found " + text(size));
  if (!start.isConstant() || !size.isConstant() || !extent.isConstant() || size.isConstant(0))
    return true;
  Context &c = *extent.node()->context;
  Dim last = start + (size - 1) * c.dim(step);
  for (Dim d : {start, last})
    if (d.constant() < 0 || d.constant() >= extent.constant())
      return fail(error, "index " + text(d) + " is out of range for extent " + text(extent));
  return true;
}

bool inferSlice(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  const Dims &starts = op.dimsAttr("starts"), &sizes = op.dimsAttr("sizes");
  const Ints &steps = op.intsAttr("steps");
  if (starts.size() != t.rank() || sizes.size() != t.rank() || steps.size() != t.rank())
    return fail(error, "expected " + llvm::Twine(t.rank()) + " starts, sizes and steps, found " +
                           llvm::Twine(starts.size()) + ", " + llvm::Twine(sizes.size()) + " and " +
                           llvm::Twine(steps.size()));
  for (unsigned i = 0; i < t.rank(); ++i)
    if (!checkSlice(t.dim(i), starts[i], sizes[i], steps[i], error))
      return fail(error, "dimension " + llvm::Twine(i) + ": " + std::string(error));
  results.push_back(Type::tensor(t.context(), t.element(), sizes));
  return true;
}

bool inferPad(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) ||
      !checkWord(op, "mode", {"constant", "edge", "reflect", "wrap"}, error))
    return false;
  Type t = op.operand(0)->type();
  if (op.numOperands() > 1) {
    if (!checkTensor(op, 1, 0, error))
      return false;
    if (op.operand(1)->type().element() != t.element())
      return fail(error, "value: expected element type " + name(t.element()) + ", found " +
                             name(op.operand(1)->type().element()));
  }
  const Dims &low = op.dimsAttr("low"), &high = op.dimsAttr("high");
  if (low.size() != t.rank() || high.size() != t.rank())
    return fail(error, "expected " + llvm::Twine(t.rank()) + " low and high pads, found " +
                           llvm::Twine(low.size()) + " and " + llvm::Twine(high.size()));
  const bool constant = op.wordAttr("mode", "constant") == "constant";
  llvm::SmallVector<Dim, 6> shape;
  for (unsigned i = 0; i < t.rank(); ++i) {
    for (Dim d : {low[i], high[i]}) {
      if (d.upper() < 0)
        return fail(error, "dimension " + llvm::Twine(i) + ": expected pads of at least 0, found " +
                               text(d) + "; a negative pad is a slice");
      if (!constant && t.dim(i).isConstant(0) && !d.isConstant(0))
        return fail(error, "dimension " + llvm::Twine(i) + " has no elements to pad with");
    }
    shape.push_back(t.dim(i) + low[i] + high[i]);
  }
  results.push_back(Type::tensor(t.context(), t.element(), shape));
  return true;
}

bool inferConcat(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  if (op.numOperands() == 0)
    return fail(error, "expected at least 1 operands, found 0");
  if (!checkTensor(op, 0, -1, error))
    return false;
  Type t = op.operand(0)->type();
  const int64_t axis = op.intAttr("axis");
  if (!checkAxis(axis, t.rank(), "axis", error))
    return false;
  llvm::SmallVector<Dim, 6> shape(t.shape().begin(), t.shape().end());
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    Type u = op.operand(i)->type();
    if (!u.isTensor() || u.rank() != t.rank() || u.element() != t.element())
      return fail(error, "operand " + llvm::Twine(i) + ": expected a tensor of rank " +
                             llvm::Twine(t.rank()) + " and element type " + name(t.element()) +
                             ", found " + toString(u));
    for (unsigned d = 0; d < t.rank(); ++d) {
      if (d == axis)
        shape[d] = shape[d] + u.dim(d);
      else if (!sameExtent(shape[d], u.dim(d)))
        return fail(error, "operand " + llvm::Twine(i) + ": dimension " + llvm::Twine(d) +
                               ": expected extent " + text(shape[d]) + ", found " + text(u.dim(d)));
    }
  }
  results.push_back(Type::tensor(t.context(), t.element(), shape));
  return true;
}

bool inferGather(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) || !checkTensor(op, 1, -1, error))
    return false;
  Type t = op.operand(0)->type(), indices = op.operand(1)->type();
  const int64_t axis = op.intAttr("axis");
  if (!checkAxis(axis, t.rank(), "axis", error))
    return false;
  if (!isInteger(indices.element()))
    return fail(error, "indices: expected an integer tensor, found " + toString(indices));
  llvm::SmallVector<Dim, 6> shape(t.shape().begin(), t.shape().begin() + axis);
  shape.append(indices.shape().begin(), indices.shape().end());
  shape.append(t.shape().begin() + axis + 1, t.shape().end());
  results.push_back(Type::tensor(t.context(), t.element(), shape));
  return true;
}

bool inferScatter(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error) || !checkTensor(op, 1, -1, error) ||
      !checkTensor(op, 2, -1, error))
    return false;
  Type t = op.operand(0)->type(), indices = op.operand(1)->type(), updates = op.operand(2)->type();
  if (t.rank() == 0)
    return fail(error, "x: expected rank 1 or more, found 0");
  if (indices.element() != Element::I64)
    return fail(error, "indices: expected an i64 tensor, found " + toString(indices));
  llvm::SmallVector<Dim, 6> shape(indices.shape().begin(), indices.shape().end());
  shape.append(t.shape().begin() + 1, t.shape().end());
  const Type expected = Type::tensor(t.context(), t.element(), shape);
  if (!sameLogical(expected, updates))
    return fail(error, "updates: expected " + toString(expected) + ", found " + toString(updates));
  const llvm::StringRef combiner = op.wordAttr("combiner", "none");
  constexpr llvm::StringLiteral kCombiners[] = {"none", "add", "mul", "min", "max"};
  if (!llvm::is_contained(kCombiners, combiner))
    return fail(error,
                "attribute combiner: expected none, add, mul, min or max, found " + combiner);
  if (!isFloat(t.element()) && !isInteger(t.element()) &&
      !(combiner == "none" && isBool(t.element())))
    return fail(error, "x: expected numbers, or booleans to replace, found " + toString(t));
  results.push_back(logical(t));
  return true;
}

bool inferBitcast(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, -1, error))
    return false;
  const Type t = op.operand(0)->type(), to = *op.find("to")->get<Type>();
  if (!to.isScalar() || bitWidth(to.element()) != bitWidth(t.element()) ||
      t.element() == Element::String || to.element() == Element::String)
    return fail(error, "attribute to: expected a type as wide as " + name(t.element()) +
                           ", found " + toString(to));
  results.push_back(logical(t).withElement(to.element()));
  return true;
}

const llvm::StringRef kX[] = {"x"};
const llvm::StringRef kMany[] = {"x…"};
const llvm::StringRef kPadOperands[] = {"x", "value?"};
const llvm::StringRef kGatherOperands[] = {"x", "indices"};
const llvm::StringRef kScatterOperands[] = {"x", "indices", "updates"};
const AttrInfo kReshape[] = {{"shape", AttrKind::Dims, true, "every extent of the result"}};
const AttrInfo kTranspose[] = {
    {"perm", AttrKind::Ints, true, "operand dimension of each result dimension"}};
const AttrInfo kSlice[] = {
    {"starts", AttrKind::Dims, true, "first index taken, per dimension"},
    {"sizes", AttrKind::Dims, true, "number of elements taken, per dimension"},
    {"steps", AttrKind::Ints, true, "distance between elements, per dimension; may be negative"},
};
const AttrInfo kPad[] = {
    {"low", AttrKind::Dims, true, "elements added before the first, per dimension"},
    {"high", AttrKind::Dims, true, "elements added after the last, per dimension"},
    {"mode", AttrKind::Word, false, "constant (default), edge, reflect or wrap"},
};
const AttrInfo kAxisConcat[] = {{"axis", AttrKind::Int, true, "dimension that grows"}};
const AttrInfo kAxisGather[] = {{"axis", AttrKind::Int, true, "dimension that is indexed"}};
const AttrInfo kBitcast[] = {{"to", AttrKind::Type, true, "element type of the result"}};
const AttrInfo kScatter[] = {
    {"combiner", AttrKind::Word, false, "none (default: replaces), add, mul, min or max"}};

} // namespace

llvm::ArrayRef<OpRow> movementOps() {
  static const OpRow kRows[] = {
      {Op::Reshape,
       {"reshape", "The same elements under another shape.", kX, kReshape, 1, 0, OpTrait::Movement,
        inferReshape, nullptr, evaluateReshape}},
      {Op::Transpose,
       {"transpose", "Permutes dimensions.", kX, kTranspose, 1, 0, OpTrait::Movement,
        inferTranspose, nullptr, evaluateTranspose}},
      {Op::Slice,
       {"slice", "Takes regularly spaced elements.", kX, kSlice, 1, 0, OpTrait::Movement,
        inferSlice, nullptr, evaluateSlice}},
      {Op::Pad,
       {"pad", "Adds elements around a tensor.", kPadOperands, kPad, 1, 0, OpTrait::Movement,
        inferPad, nullptr, evaluatePad}},
      {Op::Concat,
       {"concat", "Joins tensors along one dimension.", kMany, kAxisConcat, 1, 0, OpTrait::Movement,
        inferConcat, nullptr, evaluateConcat}},
      {Op::Gather,
       {"gather", "Takes slices of one dimension by index.", kGatherOperands, kAxisGather, 1, 0,
        OpTrait::Movement, inferGather, nullptr, evaluateGather}},
      {Op::Scatter,
       {"scatter", "Replaces or combines slices of the first dimension by index.", kScatterOperands,
        kScatter, 1, 0, OpTrait::None, inferScatter, nullptr, evaluateScatter}},
      {Op::Bitcast,
       {"bitcast", "Reads the bits of each element as another type.", kX, kBitcast, 1, 0,
        OpTrait::None, inferBitcast, nullptr, evaluateBitcast}},
  };
  return kRows;
}

} // namespace tenon
