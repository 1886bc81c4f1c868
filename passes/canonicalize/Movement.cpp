// Patterns of canonicalize for what only moves elements.
#include "passes/canonicalize/Patterns.h"

#include "passes/Maps.h"

namespace tenon::canonicalize {

// reshape(x) to the shape of x = x
bool reshapeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape) || op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  return rw.replace(op, op.operand(0));
}

// reshape(reshape(x)) = reshape(x)
bool reshapeOfReshape(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Reshape) || !rowMajor(op.operand(0)) || !rowMajor(op.result()) ||
      !rowMajor(inner->operand(0)) || !rw.fire(op))
    return false;
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// transpose(x) in the order of x = x
bool transposeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || op.operand(0)->type() != op.result()->type() ||
      !isIdentityMap(op.intsAttr("perm"), op.result()->type().rank()) || !rw.fire(op))
    return false;
  return rw.replace(op, op.operand(0));
}

// transpose_q(transpose_p(x)) = transpose_(p∘q)(x)
bool transposeOfTranspose(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Transpose) || !rowMajor(op.operand(0)) || !rw.fire(op))
    return false;
  Ints composed;
  for (int64_t d : op.intsAttr("perm"))
    composed.push_back(inner->intsAttr("perm")[d]);
  mergeLocation(op.loc(), inner->loc());
  op.set("perm", composed);
  op.setOperand(0, inner->operand(0));
  return true;
}

// transpose(x) = reshape(x), when the extents other than 1 keep their order
bool unitTranspose(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  int64_t last = -1;
  for (int64_t d : op.intsAttr("perm")) {
    if (op.operand(0)->type().dim(unsigned(d)).isConstant(1))
      continue;
    if (d < last)
      return false;
    last = d;
  }
  return rw.fire(op) &&
         rw.replace(op, rw.before(op).reshape(op.operand(0), op.result()->type().shape()));
}

/// The last two dimensions change places, and nothing else moves.
static bool swapsLastTwo(const Operation *op) {
  if (!op || !op->is(Op::Transpose) || op->result()->type().rank() < 2)
    return false;
  Ints perm = identityMap(op->result()->type().rank());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return op->intsAttr("perm") == perm;
}

// transpose(reshape(transpose(x))) = reshape(x), where both swap the last two dimensions, which the
// reshape leaves alone: keys whose heads an exporter scales as a list of matrices
bool transposedReshape(Operation &op, Rewriter &rw) {
  const Operation *reshape = swapsLastTwo(&op) ? op.operand(0)->def() : nullptr;
  const Operation *inner =
      reshape && reshape->is(Op::Reshape) ? reshape->operand(0)->def() : nullptr;
  if (!swapsLastTwo(inner))
    return false;
  const llvm::ArrayRef<Dim> from = inner->result()->type().shape(),
                            to = reshape->result()->type().shape();
  if (from.take_back(2) != to.take_back(2) || !rowMajor(inner->operand(0)) ||
      !rowMajor(inner->result()) || !rowMajor(reshape->result()) || !rowMajor(op.result()) ||
      !rw.fire(op))
    return false;
  return rw.replace(op, rw.before(op).reshape(inner->operand(0), op.result()->type().shape()));
}

// reshape(softmax(reshape(x))) = softmax(x), where the result has the shape of x and each reshape
// keeps the last dimension, over which the softmax goes
bool reshapedSoftmax(Operation &op, Rewriter &rw) {
  const Operation *softmax = op.is(Op::Reshape) ? op.operand(0)->def() : nullptr;
  if (!softmax || !softmax->is(Op::Softmax) || !softmax->result()->hasOneUse() ||
      softmax->intAttr("axis") != int64_t(softmax->result()->type().rank()) - 1)
    return false;
  const Operation *inner = softmax->operand(0)->def();
  if (!inner || !inner->is(Op::Reshape))
    return false;
  Value *x = inner->operand(0);
  const llvm::ArrayRef<Dim> shape = op.result()->type().shape();
  if (shape.empty() || x->type().shape() != shape ||
      shape.back() != softmax->result()->type().shape().back() || !rowMajor(x) ||
      !rowMajor(inner->result()) || !rowMajor(softmax->result()) || !rowMajor(op.result()) ||
      !rw.fire(op))
    return false;
  NamedAttributes attributes = softmax->attributes();
  attributes.insert_or_assign("axis", Attribute(int64_t(shape.size()) - 1));
  Builder b = rw.before(op);
  b.location = softmax->loc();
  return rw.replace(op, b.value(Op::Softmax, {x}, std::move(attributes)));
}

// normalize(reshape(x)) = reshape(normalize(reshape'(x))), where the rows that go over to the
// normalisation are pieces of x's rows, and reshape' lets them stand in a dimension of their own:
// heads of queries, which are then a view of the columns of a wider product, too
bool normalizedPieces(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Normalize))
    return false;
  const Type normed = op.result()->type();
  const Operation *reshape = op.operand(0)->def();
  if (!reshape || !reshape->is(Op::Reshape) || !rowMajor(reshape->result()) ||
      op.intsAttr("axes") != Ints{int64_t(normed.rank()) - 1})
    return false;
  Value *x = reshape->operand(0);
  if (!rowMajor(x) || x->type().rank() == 0)
    return false;
  const Dim row = x->type().shape().back(), piece = normed.shape().back();
  if (!row.isConstant() || !piece.isConstant() || piece.constant() < 1 ||
      row.constant() % piece.constant() != 0 || row == piece)
    return false;
  Dims shape(x->type().shape().begin(), x->type().shape().end());
  shape.back() = normed.context().dim(row.constant() / piece.constant());
  shape.push_back(piece);
  if (llvm::ArrayRef<Dim>(shape) == normed.shape() || !rw.fire(op))
    return false;
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("axes", Attribute(Ints{int64_t(shape.size()) - 1}));
  Builder b = rw.before(op);
  b.location = op.loc();
  Value *pieces = b.value(Op::Normalize, {b.reshape(x, shape)}, std::move(attributes));
  return rw.replace(op, b.reshape(pieces, normed.shape()));
}

static bool isFullSlice(const Operation &op) {
  for (int64_t s : op.intsAttr("steps"))
    if (s != 1)
      return false;
  return op.operand(0)->type().shape() == op.result()->type().shape();
}

// slice(x) that takes everything = x
bool sliceNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice) || !isFullSlice(op) || op.operand(0)->type() != op.result()->type() ||
      !rw.fire(op))
    return false;
  return rw.replace(op, op.operand(0));
}

// slice(slice(x)) = slice(x): starts s₁ + t₁·s₂, steps t₁·t₂
bool sliceOfSlice(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Slice) || !rowMajor(op.operand(0)) || !rw.fire(op))
    return false;
  Dims starts;
  Ints steps;
  for (unsigned d = 0; d < op.result()->type().rank(); ++d) {
    const int64_t t1 = inner->intsAttr("steps")[d];
    Context &c = op.result()->type().context();
    starts.push_back(inner->dimsAttr("starts")[d] + c.dim(t1) * op.dimsAttr("starts")[d]);
    steps.push_back(t1 * op.intsAttr("steps")[d]);
  }
  op.set("starts", starts);
  op.set("steps", steps);
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// slice(concat(…, xᵢ, …)) = slice(xᵢ), when it takes elements of xᵢ only
bool sliceOfConcat(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice))
    return false;
  Operation *concat = op.operand(0)->def();
  if (!concat || !concat->is(Op::Concat) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  const unsigned axis = unsigned(concat->intAttr("axis"));
  Dim start = op.dimsAttr("starts")[axis], size = op.dimsAttr("sizes")[axis];
  const int64_t step = op.intsAttr("steps")[axis];
  if (!start.isConstant() || !size.isConstant() || size.isConstant(0))
    return false;
  const int64_t first = start.constant(), last = first + (size.constant() - 1) * step;
  int64_t at = 0;
  for (Value *x : concat->operands()) {
    Dim extent = x->type().dim(axis);
    if (!extent.isConstant())
      return false;
    const int64_t end = at + extent.constant();
    if (std::min(first, last) >= at && std::max(first, last) < end) {
      if (!rowMajor(x) || !rw.fire(op))
        return false;
      Dims starts = op.dimsAttr("starts");
      starts[axis] = op.result()->type().context().dim(first - at);
      mergeLocation(op.loc(), concat->loc());
      op.set("starts", starts);
      op.setOperand(0, x);
      return true;
    }
    at = end;
  }
  return false;
}

static bool allZero(const Dims &dims) {
  return llvm::all_of(dims, [](Dim d) { return d.isConstant(0); });
}

// pad(x) by nothing = x
bool padNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pad) || !allZero(op.dimsAttr("low")) || !allZero(op.dimsAttr("high")) ||
      op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  return rw.replace(op, op.operand(0));
}

// pad_c(pad_c(x)) = pad_c(x) by the sums, for constant padding with one value
bool padOfPad(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pad) || op.wordAttr("mode", "constant") != "constant")
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Pad) || inner->wordAttr("mode", "constant") != "constant" ||
      !rowMajor(op.operand(0)) || inner->numOperands() != op.numOperands())
    return false;
  if (op.numOperands() > 1 && op.operand(1) != inner->operand(1)) {
    auto a = splatValue(op.operand(1)), b = splatValue(inner->operand(1));
    if (!a || !b || *a != *b)
      return false;
  }
  if (!rw.fire(op))
    return false;
  Dims low, high;
  for (unsigned d = 0; d < op.result()->type().rank(); ++d) {
    low.push_back(op.dimsAttr("low")[d] + inner->dimsAttr("low")[d]);
    high.push_back(op.dimsAttr("high")[d] + inner->dimsAttr("high")[d]);
  }
  op.set("low", low);
  op.set("high", high);
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// concat(x) = x;  concat(x, empty) = concat(x)
bool concatNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat))
    return false;
  const unsigned axis = unsigned(op.intAttr("axis"));
  llvm::SmallVector<Value *, 4> kept;
  for (Value *v : op.operands())
    if (!v->type().dim(axis).isConstant(0))
      kept.push_back(v);
  if (kept.size() == 1 && kept[0]->type() == op.result()->type()) {
    return rw.fire(op) && rw.replace(op, kept[0]);
  }
  if (kept.empty() || kept.size() == op.numOperands() || !rw.fire(op))
    return false;
  op.setOperands(kept);
  return true;
}

// concat(concat(x, y), z) = concat(x, y, z) along the same axis
bool concatOfConcat(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *inner = op.operand(i)->def();
    if (!inner || !inner->is(Op::Concat) || inner->intAttr("axis") != op.intAttr("axis") ||
        !op.operand(i)->hasOneUse() || !rowMajor(op.operand(i)))
      continue;
    if (!rw.fire(op))
      return false;
    llvm::SmallVector<Value *, 8> operands;
    for (unsigned k = 0; k < op.numOperands(); ++k) {
      if (k != i) {
        operands.push_back(op.operand(k));
        continue;
      }
      auto list = inner->operands();
      operands.append(list.begin(), list.end());
    }
    mergeLocation(op.loc(), inner->loc());
    op.setOperands(operands);
    return true;
  }
  return false;
}

/// The place of the operands of `part` as a run among those of `whole`; -1 without one.
static int runOf(const Operation &part, const Operation &whole) {
  const auto all = whole.operands(), some = part.operands();
  for (unsigned at = 0; at + some.size() <= all.size(); ++at)
    if (std::equal(some.begin(), some.end(), all.begin() + at))
      return int(at);
  return -1;
}

// y = concat(a, b);  concat(…, a, b, …) = concat(…, y, …)
// Networks with dense connections concatenate ever longer lists: each part then has one place.
bool concatRun(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat) || !rowMajor(op.result()))
    return false;
  Operation *best = nullptr;
  int place = -1;
  for (Value *v : op.operands())
    for (Use *u : v->uses()) {
      Operation *part = u->owner();
      if (!part->is(Op::Concat) || part == &op || part->parent() != op.parent() ||
          part->intAttr("axis") != op.intAttr("axis") || !rowMajor(part->result()) ||
          part->numOperands() < 2 || part->numOperands() >= op.numOperands() ||
          (best && part->numOperands() <= best->numOperands()) || !part->isBefore(&op))
        continue;
      const int at = runOf(*part, op);
      if (at < 0)
        continue;
      best = part;
      place = at;
    }
  // One that nothing else reads would be dissolved again (concat-of-concat).
  if (!best || best->result()->uses().empty() || !rw.fire(op))
    return false;
  const auto all = op.operands();
  llvm::SmallVector<Value *, 8> operands(all.begin(), all.begin() + place);
  operands.push_back(best->result());
  operands.append(all.begin() + place + best->numOperands(), all.end());
  op.setOperands(operands);
  return true;
}

// gather(x, constant scalar k) = reshape(slice(x, k))
bool gatherConstant(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Gather) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  Literal index = constantValue(op.operand(1));
  Type x = op.operand(0)->type();
  const unsigned axis = unsigned(op.intAttr("axis"));
  if (!index || index->size() != 1)
    return false;
  Context &c = x.context();
  int64_t k = index->intAt(0);
  if (k < 0) {
    if (!x.dim(axis).isConstant())
      return false;
    k += x.dim(axis).constant();
  }
  if (k < 0 || k >= x.dim(axis).lower() || !rw.fire(op))
    return false;
  Dims starts(x.rank(), c.dim(0)), sizes(x.shape().begin(), x.shape().end());
  starts[axis] = c.dim(k);
  sizes[axis] = c.dim(1);
  Builder b = rw.before(op);
  Value *slice = b.value(Op::Slice, {op.operand(0)},
                         {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(x.rank(), 1)}});
  return rw.replace(op, b.reshape(slice, op.result()->type().shape()));
}

} // namespace tenon::canonicalize
