// Patterns of canonicalize for numbers that follow from extents (ir/Ramps.h).
#include "passes/canonicalize/Patterns.h"

#include "ir/Attention.h"
#include "ir/Ramps.h"

namespace tenon::canonicalize {

// gather(x, k, k + 1, …) = reshape(slice(x, k)), k a number or an extent. Rows behind a constant's
// last one, which no run in its bounds asks for, are copies of that one, as a gather reads them.
bool gatherRamp(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Gather) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  Value *x = op.operand(0), *index = op.operand(1);
  const Type indices = index->type();
  const MaybeRamp ramp = Ramps().of(index);
  if (!ramp || ramp->base.lower() < 0)
    return false;
  Context &c = x->type().context();
  Dim count = c.dim(1);
  for (unsigned d = 0; d < indices.rank(); ++d) {
    if (int(d) == ramp->dim)
      count = indices.dim(d);
    else if (!indices.dim(d).isConstant(1))
      return false;
  }
  const unsigned axis = unsigned(op.intAttr("axis"));
  const Dim rows = x->type().dim(axis);
  const int64_t missing = (ramp->base + count).upper() - rows.lower();
  if (missing > 0 && (!constantValue(x) || missing > rows.lower()))
    return false;
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  if (missing > 0) {
    Dims none(x->type().rank(), c.dim(0)), behind = none;
    behind[axis] = c.dim(missing);
    x = b.value(Op::Pad, {x}, {{"low", none}, {"high", behind}, {"mode", Word{"edge"}}});
  }
  Dims starts(x->type().rank(), c.dim(0)),
      sizes(x->type().shape().begin(), x->type().shape().end());
  starts[axis] = ramp->base;
  sizes[axis] = count;
  Value *slice = b.value(Op::Slice, {x},
                         {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(sizes.size(), 1)}});
  return rw.replace(op, b.reshape(slice, op.result()->type().shape()));
}

// attention(q, k, v, first) {causal = 0} = attention(q, k, v), where the only query stands at the
// last key
bool lastQuery(Operation &op, Rewriter &rw) {
  const unsigned first = op.is(Op::Attention) ? attentionOperands(op).first : 0;
  if (first == 0)
    return false;
  const Type queries = op.operand(0)->type(), keys = op.operand(1)->type();
  if (op.has("window") || !queries.dim(queries.rank() - 2).isConstant(1))
    return false;
  const MaybeRamp ramp = Ramps().of(op.operand(first));
  if (!ramp || !ramp->isSame() || ramp->base + 1 != keys.dim(keys.rank() - 2) || !rw.fire(op))
    return false;
  llvm::SmallVector<Value *, 6> operands = op.operands();
  operands.erase(operands.begin() + first);
  op.setOperands(operands);
  op.remove("causal");
  return true;
}

} // namespace tenon::canonicalize
